//! What a handler gets of a request besides its body: the service, the headers, the client, and where to leave the permit for the body's memory.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::Service;
use super::body_memory::BodyPermit;
use crate::mutex::lock;
use crate::pool::ClientId;

/// The address that a request came from. An IPv6 network of 64 bits counts as one address, since whoever has one of its addresses has all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Peer(IpAddr);

impl Peer {
    pub(super) fn new(address: IpAddr) -> Peer {
        Peer(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                IpAddr::V6(network.into())
            }
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// Where a handler leaves the permit for its request's body, and the connection takes it for the answer.
#[derive(Clone, Default)]
pub(super) struct HeldPermit(Arc<Mutex<Option<BodyPermit>>>);

impl HeldPermit {
    pub(super) fn put(&self, permit: BodyPermit) {
        *lock(&self.0) = Some(permit);
    }

    pub(super) fn take(&self) -> Option<BodyPermit> {
        lock(&self.0).take()
    }
}

/// The context of a request, which handlers take as an extractor.
pub(super) struct RequestContext {
    pub(super) service: Arc<Service>,
    /// The request's headers.
    pub(super) headers: HeaderMap,
    /// The client that the queue is fair to: the address. Credentials do not count, since anyone may vary their spelling.
    pub(super) client: ClientId,
    pub(super) body_permit: HeldPermit,
}

impl FromRequestParts<Arc<Service>> for RequestContext {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        service: &Arc<Service>,
    ) -> Result<RequestContext, Infallible> {
        let mut client = DefaultHasher::new();
        parts.extensions.get::<Peer>().hash(&mut client);
        Ok(RequestContext {
            service: Arc::clone(service),
            headers: parts.headers.clone(),
            client: ClientId(client.finish()),
            body_permit: parts.extensions.get().cloned().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_one_network_are_one_peer() {
        for (one, other, same) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("2001:db8::1", "2001:db8::ffff:2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            let peer = |text: &str| Peer::new(text.parse().unwrap());
            assert_eq!(peer(one) == peer(other), same, "{one} {other}");
        }
    }
}
