//! Where the service listens: an address, or a host name with one or several addresses.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use datasets::settings::{Setting, ValueKind};
use serde::{Deserialize, Serialize};

/// A host and a port. The host is an IP address, or a name that is looked up when the service starts. Port 0 chooses a free one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Listen(String);

/// The expected form, for error messages.
const FORM: &str = "a host and a port, as in 127.0.0.1:8700, [::1]:8700 or localhost:8700";

impl Setting for Listen {
    const KIND: ValueKind = ValueKind::Form(FORM, |text| text.parse::<Listen>().is_ok());
}

impl Listen {
    /// The addresses, IPv4 first: every client tries the IPv4 address of `localhost`, and not every client the IPv6 address.
    ///
    /// # Errors
    /// If the name cannot be looked up or has no address.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let mut addresses: Vec<SocketAddr> = self.0.to_socket_addrs()?.collect();
        addresses.sort_by_key(SocketAddr::is_ipv6);
        addresses.dedup();
        if addresses.is_empty() {
            let reason = "the name has no address";
            return Err(io::Error::new(io::ErrorKind::NotFound, reason));
        }
        Ok(addresses)
    }

    /// The host, without the port.
    pub fn host(&self) -> &str {
        self.0.rsplit_once(':').map_or(&self.0, |(host, _)| host)
    }
}

impl Default for Listen {
    fn default() -> Listen {
        Listen("127.0.0.1:8700".to_owned())
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        Listen::try_from(text.to_owned())
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Listen, String> {
        let is_named = || {
            let (host, port) = text.rsplit_once(':')?;
            // Rust parses `+80` as a number.
            let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
            (is_name(host) && is_number).then(|| port.parse::<u16>().ok())?
        };
        if text.parse::<SocketAddr>().is_ok() || is_named().is_some() {
            return Ok(Listen(text));
        }
        Err(format!("{FORM}, is wanted"))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether `host` is a valid host name (RFC 1123). A name that ends in a number is a mistyped address.
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= 253
        && host.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_or_a_name() {
        let good = "127.0.0.1:8700 [::1]:0 localhost:8700 verifier-1.example.org:80 localhost.:1";
        for good in good.split(' ') {
            let listen: Listen = good.parse().unwrap();
            assert_eq!(listen.to_string(), good);
        }
        let bad = "127.0.0.1,8700,,:8700,localhost,localhost:,localhost:+80,localhost:65536,http://localhost:80,127.0.0:80,256.0.0.1:80,::1:8700,-a:1,a b:1,a..b:1";
        for bad in bad.split(',') {
            let error = bad.parse::<Listen>().unwrap_err();
            assert!(error.contains("localhost:8700"), "{bad}: {error}");
        }
    }
}
