//! The open connections: what each waits for, and which makes room for another.
//!
//! `limits.connections`, and some more, may wait for their clients. While there are as many, a new connection gets the socket of a client that lags: one that does not read its
//! answer before others, of the address with the most connections, the one that lags most. If none lags, it gets one of the address with the most connections. A request that is
//! being answered is never broken off. There are places for several times as many requests. For both, addresses take turns, and those that have fewer come first.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

use super::pace::Pace;
use super::sender::Peer;

/// Sockets in addition to `limits.connections`.
const SPARE: usize = 64;
/// Connections that are accepted and have no socket yet.
const MAX_ARRIVED: usize = 1_024;
/// Requests of one address at a time, in multiples of `limits.connections`. They wait for verdicts, which the queue and the memory of bodies limit too. All addresses together
/// may have one multiple more, so that one that has a request only finds a place.
const PLACES: usize = 8;
/// A client that lags this far loses its socket, or its place, if another needs it.
const LAG: Duration = Duration::from_millis(100);
/// If none lags, so does one that takes this long, for another with fewer connections. It could keep others out for minutes.
const TURN: Duration = Duration::from_millis(500);

/// What a connection waits for.
///
/// In the order in which they make room for others, the last first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// The service.
    Answering,
    /// A place for its request.
    Queued,
    /// The rest of its request's body.
    Receiving,
    /// A request.
    Idle,
    /// Its client, which has not read all of the answer.
    Sending,
}

/// The open connections of a service.
pub(super) struct Sockets {
    /// Most sockets that wait for their clients.
    limit: usize,
    open: Mutex<HashMap<u64, Arc<Socket>>>,
    arrived: Mutex<VecDeque<(Peer, TcpStream)>>,
    places: Mutex<Places>,
}

/// The places of requests.
struct Places {
    free: usize,
    /// The number that each peer has.
    held: HashMap<Peer, usize>,
    waiting: VecDeque<(Peer, oneshot::Sender<Place>)>,
}

/// The place of one request, until it is dropped.
pub(super) struct Place {
    sockets: Arc<Sockets>,
    peer: Peer,
}

/// One connection.
pub(super) struct Socket {
    pub(super) peer: Peer,
    state: Mutex<(Phase, Pace)>,
    /// Its end, decided by others.
    broken: Notify,
    /// A refusal of its request, which waits for a place.
    refused: Notify,
}

/// A connection's entry in the table, until it is dropped.
pub(super) struct OpenSocket {
    pub(super) sockets: Arc<Sockets>,
    number: u64,
    pub(super) socket: Arc<Socket>,
}

/// How many there are of each.
fn counted(peers: impl Iterator<Item = Peer>) -> HashMap<Peer, usize> {
    let mut counts = HashMap::new();
    peers.for_each(|peer| *counts.entry(peer).or_default() += 1);
    counts
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sockets {
    /// Sockets for as many `connections`.
    pub(super) fn new(connections: usize) -> Arc<Sockets> {
        Arc::new(Sockets {
            limit: connections.saturating_add(SPARE),
            open: Mutex::default(),
            arrived: Mutex::default(),
            places: Mutex::new(Places {
                free: connections.saturating_mul(PLACES + 1),
                held: HashMap::new(),
                waiting: VecDeque::new(),
            }),
        })
    }

    /// A new connection, which [`Sockets::open`] returns in its turn. If too many wait for theirs, the last of the peer with the most is closed.
    pub(super) fn arrive(&self, peer: Peer, stream: TcpStream) {
        let mut arrived = lock(&self.arrived);
        arrived.push_back((peer, stream));
        if arrived.len() > MAX_ARRIVED {
            let peers = counted(arrived.iter().map(|(peer, _)| *peer));
            let last = (0..arrived.len()).max_by_key(|at| peers[&arrived[*at].0]);
            last.and_then(|last| arrived.remove(last));
        }
    }

    /// A socket for the next connection: of those that wait, one of the peer with the fewest. `None` if all are taken, and no client can be made to give up its own.
    pub(super) fn open(self: &Arc<Self>, number: u64) -> Option<(OpenSocket, TcpStream)> {
        let mut arrived = lock(&self.arrived);
        let peers = counted(lock(&self.open).values().map(|socket| socket.peer));
        let next = (0..arrived.len()).min_by_key(|at| peers.get(&arrived[*at].0))?;
        if self.is_full() && !self.break_off(arrived[next].0, |_| true) {
            return None;
        }
        let (peer, stream) = arrived.remove(next)?;
        drop(arrived);
        let socket = Arc::new(Socket {
            peer,
            state: Mutex::new((Phase::Idle, Pace::new(Instant::now()))),
            broken: Notify::new(),
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

    /// Whether as many sockets as may be wait for their clients.
    fn is_full(&self) -> bool {
        let open = lock(&self.open);
        let wait = |socket: &&Arc<Socket>| !socket.is_answering();
        open.len() >= self.limit && open.values().filter(wait).count() >= self.limit
    }

    /// Breaks off a connection that is in such a phase, for one of `peer`: one that lags, of a peer with at least as many; else one that takes long, of a peer with more than twice
    /// as many; else one that waits for a place. False if there is none.
    fn break_off(&self, peer: Peer, allowed: impl Fn(Phase) -> bool) -> bool {
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
            let takes_long = pace.age(now) >= TURN && of_peer > 2 * mine;
            let lag = (lags && phase != Phase::Queued).then_some((phase, of_peer, lag));
            let late = phase != Phase::Answering && (lags || takes_long);
            let rank = (lag, phase != Phase::Queued, of_peer, phase, *number);
            (late && allowed(phase)).then_some(rank)
        });
        let Some((.., number)) = late.max() else {
            return false;
        };
        let broken_off = open[&number].break_off();
        if broken_off {
            open.remove(&number);
        }
        broken_off
    }

    /// Breaks off the connections whose clients lag as far as this in reading their answers.
    pub(super) fn break_off_unread(&self, lag: Duration) {
        let now = Instant::now();
        lock(&self.open).retain(|_, socket| {
            let (phase, pace) = *lock(&socket.state);
            !(phase == Phase::Sending && pace.lag(now) >= lag && socket.break_off())
        });
    }

    /// Whether a complete request waits for its answer.
    pub(super) fn any_answering(&self) -> bool {
        lock(&self.open)
            .values()
            .any(|socket| socket.is_answering())
    }

    /// A place for the request of `socket`: one that is free, or the next that is of all peers that wait, if its own has the fewest. While there is none, clients whose bodies lag
    /// lose theirs. `None` if the socket is needed for another.
    pub(super) async fn place(self: &Arc<Self>, socket: &Socket) -> Option<Place> {
        socket.enter(Phase::Queued);
        let (give, given) = oneshot::channel();
        lock(&self.places).waiting.push_back((socket.peer, give));
        self.give_places();
        let mut place = pin!(given);
        loop {
            tokio::select! {
                biased;
                place = &mut place => {
                    socket.enter(Phase::Receiving);
                    return place.ok();
                }
                () = socket.refused.notified() => return None,
                () = tokio::time::sleep(LAG) => {
                    self.break_off(socket.peer, |phase| phase == Phase::Receiving);
                    static WARNED: Once = Once::new();
                    WARNED.call_once(|| tracing::warn!(
                        "there are as many requests as limits.connections allows ({PLACES} for each); others wait until one is answered. This is logged once"
                    ));
                }
            }
        }
    }

    fn give_places(self: &Arc<Self>) {
        loop {
            let mut places = lock(&self.places);
            let held = |peer: &Peer| places.held.get(peer).copied().unwrap_or(0);
            let waiting = places.waiting.iter().enumerate();
            let next = waiting.map(|(at, (peer, _))| (held(peer), at)).min();
            // Each gives up the more, the fewer are left, so that there is one for a peer that comes later.
            let Some((_, next)) = next.filter(|(held, _)| *held < places.free * PLACES) else {
                return;
            };
            let Some((peer, give)) = places.waiting.remove(next) else {
                return;
            };
            places.free -= 1;
            *places.held.entry(peer).or_default() += 1;
            drop(places);
            // Who has gone gives it back by dropping it.
            let _ = give.send(Place {
                sockets: Arc::clone(self),
                peer,
            });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = lock(&self.sockets.places);
        places.free += 1;
        if let Some(held) = places.held.get_mut(&self.peer) {
            *held -= 1;
            if *held == 0 {
                places.held.remove(&self.peer);
            }
        }
        drop(places);
        self.sockets.give_places();
    }
}

impl Socket {
    /// The connection is in this phase from now on.
    pub(super) fn enter(&self, phase: Phase) {
        *lock(&self.state) = (phase, Pace::new(Instant::now()));
    }

    fn is_answering(&self) -> bool {
        lock(&self.state).0 == Phase::Answering
    }

    /// Returns once the connection shall end.
    pub(super) async fn broken(&self) {
        self.broken.notified().await;
    }

    /// Ends the connection, or refuses its request. False if it is being answered by now.
    fn break_off(&self) -> bool {
        match lock(&self.state).0 {
            Phase::Answering => return false,
            Phase::Queued => self.refused.notify_one(),
            _ => self.broken.notify_one(),
        }
        true
    }

    fn moved(&self, bytes: usize) {
        lock(&self.state).1.record(bytes, Instant::now());
    }

    /// The client does not read, so it has to, unless its next request is being answered by now.
    fn blocked(&self) {
        let mut state = lock(&self.state);
        if !matches!(state.0, Phase::Answering | Phase::Sending) {
            *state = (Phase::Sending, Pace::new(Instant::now()));
        }
    }

    /// All that was written is sent.
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

/// A stream that records what its client sends and reads.
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
    /// What the client has not read is discarded, which the kernel would keep for minutes otherwise.
    fn drop(&mut self) {
        if lock(&self.socket.state).0 == Phase::Sending {
            let _ = self.stream.set_zero_linger();
        }
    }
}
