//! The open connections: their phases, and which of them is closed to make room for another.
//!
//! At most `limits.connections`, and some more, may wait for their clients. At this limit, a new connection gets the socket of a client that lags. Clients that do not
//! read their answers come first, then the address with the most connections, then the longest lag. If none lags, an address with the most connections loses one. No
//! request is ended while it is being answered. Several times as many requests may be in flight. Of the addresses that wait for a socket or a permit, the one that
//! holds the fewest is next.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, Once};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

use super::pace::Pace;
use super::request_context::Peer;
use crate::mutex::lock;

/// Sockets in addition to `limits.connections`.
const SPARE: usize = 64;
/// Maximum accepted connections without a socket.
const MAX_ARRIVED: usize = 1_024;
/// Requests of one address at a time, in multiples of `limits.connections`. They wait for verdicts; the queue and the memory of bodies limit them too. All addresses
/// together may have one multiple more, so that an address with a single request gets a permit.
const REQUESTS_PER_CONNECTION: usize = 8;
/// A client that lags this far loses its socket, or its request's permit, if another needs it.
const LAG: Duration = Duration::from_millis(100);
/// A client that does not lag loses it at this age, to one with fewer connections. Otherwise it could keep others out for minutes.
const MAX_AGE: Duration = Duration::from_millis(500);

/// What a connection waits for. Later phases are evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// The service.
    Answering,
    /// A permit for its request.
    Queued,
    /// The rest of the body of its request.
    Receiving,
    /// A request.
    Idle,
    /// Its client: part of the answer is unread.
    Sending,
}

/// The open connections of a service.
pub(super) struct Sockets {
    /// Maximum sockets that wait for their clients.
    limit: usize,
    open: Mutex<HashMap<u64, Arc<Socket>>>,
    arrived: Mutex<VecDeque<(Peer, TcpStream)>>,
    permits: Mutex<RequestPermits>,
}

struct RequestPermits {
    free: usize,
    /// The number of permits that each peer holds.
    held: HashMap<Peer, usize>,
    waiting: VecDeque<(Peer, oneshot::Sender<RequestPermit>)>,
}

/// The permit for one request. Dropping it releases the permit.
pub(super) struct RequestPermit {
    sockets: Arc<Sockets>,
    peer: Peer,
}

pub(super) struct Socket {
    pub(super) peer: Peer,
    state: Mutex<(Phase, Pace)>,
    /// Notified when another connection needs this socket.
    evicted: Notify,
    /// Notified when its request, still without a permit, is refused.
    refused: Notify,
}

/// A connection's entry in the table. Dropping it removes the entry.
pub(super) struct OpenSocket {
    pub(super) sockets: Arc<Sockets>,
    number: u64,
    pub(super) socket: Arc<Socket>,
}

/// The number of connections of each peer.
fn counted(peers: impl Iterator<Item = Peer>) -> HashMap<Peer, usize> {
    let mut counts = HashMap::new();
    peers.for_each(|peer| *counts.entry(peer).or_default() += 1);
    counts
}

impl Sockets {
    pub(super) fn new(connections: usize) -> Arc<Sockets> {
        Arc::new(Sockets {
            limit: connections.saturating_add(SPARE),
            open: Mutex::default(),
            arrived: Mutex::default(),
            permits: Mutex::new(RequestPermits {
                free: connections.saturating_mul(REQUESTS_PER_CONNECTION + 1),
                held: HashMap::new(),
                waiting: VecDeque::new(),
            }),
        })
    }

    /// Queues an accepted connection for [`Sockets::open`]. If too many wait, the peer with the most loses its newest.
    pub(super) fn enqueue(&self, peer: Peer, stream: TcpStream) {
        let mut arrived = lock(&self.arrived);
        arrived.push_back((peer, stream));
        if arrived.len() > MAX_ARRIVED {
            let peers = counted(arrived.iter().map(|(peer, _)| *peer));
            let last = (0..arrived.len()).max_by_key(|at| peers[&arrived[*at].0]);
            last.and_then(|last| arrived.remove(last));
        }
    }

    /// A socket for the next connection: of those that wait, one of the peer with the fewest. `None` if all are taken and none can be evicted.
    pub(super) fn open(self: &Arc<Self>, number: u64) -> Option<(OpenSocket, TcpStream)> {
        let mut arrived = lock(&self.arrived);
        let peers = counted(lock(&self.open).values().map(|socket| socket.peer));
        let next = (0..arrived.len()).min_by_key(|at| peers.get(&arrived[*at].0))?;
        if self.is_full() && !self.evict(arrived[next].0, |_| true) {
            return None;
        }
        let (peer, stream) = arrived.remove(next)?;
        drop(arrived);
        let socket = Arc::new(Socket {
            peer,
            state: Mutex::new((Phase::Idle, Pace::new(Instant::now()))),
            evicted: Notify::new(),
            refused: Notify::new(),
        });
        lock(&self.open).insert(number, Arc::clone(&socket));
        let open = OpenSocket {
            sockets: Arc::clone(self),
            number,
            socket,
        };
        Some((open, stream))
    }

    /// Whether the maximum number of sockets waits for clients.
    fn is_full(&self) -> bool {
        let open = lock(&self.open);
        let wait = |socket: &&Arc<Socket>| !socket.is_answering();
        open.len() >= self.limit && open.values().filter(wait).count() >= self.limit
    }

    /// Evicts a connection in an `allowed` phase, in favour of `peer`. First come those that lag, of a peer with at least as many. Then those that take long, of a
    /// peer with more than twice as many, and among these last the ones that wait for a permit. False if there is none.
    fn evict(&self, peer: Peer, allowed: impl Fn(Phase) -> bool) -> bool {
        let now = Instant::now();
        let mut open = lock(&self.open);
        let of_peer = counted(open.values().map(|socket| socket.peer));
        let waits = |socket: &Socket| lock(&socket.state).0 > Phase::Queued;
        let mine = open.values().filter(|socket| socket.peer == peer);
        let mine = mine.filter(|socket| waits(socket)).count();
        let late = open.iter().filter_map(|(number, socket)| {
            let (phase, pace) = *lock(&socket.state);
            let (lag, of_peer) = (pace.lag(now), of_peer[&socket.peer]);
            let lags = lag >= LAG && of_peer >= mine;
            let takes_long = pace.age(now) >= MAX_AGE && of_peer > 2 * mine;
            let lag = (lags && phase != Phase::Queued).then_some((phase, of_peer, lag));
            let late = phase != Phase::Answering && (lags || takes_long);
            let rank = (lag, phase != Phase::Queued, of_peer, phase, *number);
            (late && allowed(phase)).then_some(rank)
        });
        let Some((.., number)) = late.max() else {
            return false;
        };
        let evicted = open[&number].evict();
        if evicted {
            open.remove(&number);
        }
        evicted
    }

    /// Evicts the connections of clients that lag by `lag` in reading their answers.
    pub(super) fn evict_unread(&self, lag: Duration) {
        let now = Instant::now();
        lock(&self.open).retain(|_, socket| {
            let (phase, pace) = *lock(&socket.state);
            !(phase == Phase::Sending && pace.lag(now) >= lag && socket.evict())
        });
    }

    /// Whether a complete request waits for its answer.
    pub(super) fn any_answering(&self) -> bool {
        lock(&self.open)
            .values()
            .any(|socket| socket.is_answering())
    }

    /// A permit for the request of `socket`: a free one, or the next released one if its peer holds the fewest of all that wait. Meanwhile, clients that lag with their
    /// bodies lose theirs. `None` if another connection needs the socket.
    pub(super) async fn request_permit(self: &Arc<Self>, socket: &Socket) -> Option<RequestPermit> {
        socket.enter(Phase::Queued);
        let (give, given) = oneshot::channel();
        lock(&self.permits).waiting.push_back((socket.peer, give));
        self.grant_permits();
        let mut permit = pin!(given);
        loop {
            tokio::select! {
                biased;
                permit = &mut permit => {
                    socket.enter(Phase::Receiving);
                    return permit.ok();
                }
                () = socket.refused.notified() => return None,
                () = tokio::time::sleep(LAG) => {
                    self.evict(socket.peer, |phase| phase == Phase::Receiving);
                    static WARNED: Once = Once::new();
                    WARNED.call_once(|| tracing::warn!(
                        "there are as many requests as limits.connections allows ({REQUESTS_PER_CONNECTION} for each); others wait until one is answered. This is logged once"
                    ));
                }
            }
        }
    }

    fn grant_permits(self: &Arc<Self>) {
        loop {
            let mut permits = lock(&self.permits);
            let held = |peer: &Peer| permits.held.get(peer).copied().unwrap_or(0);
            let waiting = permits.waiting.iter().enumerate();
            let next = waiting.map(|(at, (peer, _))| (held(peer), at)).min();
            // The fewer permits are free, the fewer a peer may hold, so that a later peer finds one.
            let Some((_, next)) =
                next.filter(|(held, _)| *held < permits.free * REQUESTS_PER_CONNECTION)
            else {
                return;
            };
            let Some((peer, give)) = permits.waiting.remove(next) else {
                return;
            };
            permits.free -= 1;
            *permits.held.entry(peer).or_default() += 1;
            drop(permits);
            // If the receiver is gone, dropping the permit releases it.
            let _ = give.send(RequestPermit {
                sockets: Arc::clone(self),
                peer,
            });
        }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let mut permits = lock(&self.sockets.permits);
        permits.free += 1;
        if let Some(held) = permits.held.get_mut(&self.peer) {
            *held -= 1;
            if *held == 0 {
                permits.held.remove(&self.peer);
            }
        }
        drop(permits);
        self.sockets.grant_permits();
    }
}

impl Socket {
    pub(super) fn enter(&self, phase: Phase) {
        *lock(&self.state) = (phase, Pace::new(Instant::now()));
    }

    fn is_answering(&self) -> bool {
        lock(&self.state).0 == Phase::Answering
    }

    /// Returns once another connection needs this one's socket.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Ends the connection, or refuses its request. False if the request is being answered meanwhile.
    fn evict(&self) -> bool {
        match lock(&self.state).0 {
            Phase::Answering => return false,
            Phase::Queued => self.refused.notify_one(),
            _ => self.evicted.notify_one(),
        }
        true
    }

    fn moved(&self, bytes: usize) {
        lock(&self.state).1.record(bytes, Instant::now());
    }

    /// The kernel's buffer is full, so the client has to read, unless its next request is already being answered.
    fn blocked(&self) {
        let mut state = lock(&self.state);
        if !matches!(state.0, Phase::Answering | Phase::Sending) {
            *state = (Phase::Sending, Pace::new(Instant::now()));
        }
    }

    /// Everything written has been sent.
    fn flushed(&self) {
        let mut state = lock(&self.state);
        if state.0 == Phase::Sending {
            *state = (Phase::Idle, Pace::new(Instant::now()));
        }
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        lock(&self.sockets.open).remove(&self.number);
    }
}

/// A stream that records its client's pace.
pub(super) struct Paced {
    pub(super) stream: TcpStream,
    pub(super) socket: Arc<Socket>,
}

impl Paced {
    fn written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => self.socket.moved(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.socket.blocked(),
        }
        written
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.socket.moved(buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.socket.flushed();
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for Paced {
    /// Discards what the client has not read. The kernel would keep it for minutes otherwise.
    fn drop(&mut self) {
        if lock(&self.socket.state).0 == Phase::Sending {
            let _ = self.stream.set_zero_linger();
        }
    }
}
