//! Compiled kernels in the cache folder. Each version of the sources has its own file, so a start compiles only changed sources.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What the compiler makes of the kernels' sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The image for the driver: a cubin, or PTX with a terminating zero.
    pub bytes: Vec<u8>,
    /// The compiled name of each requested kernel, in order.
    pub names: Vec<String>,
}

/// The cache folder: `$RAPID_HOME`, else `rapid` in the platform's cache folder, else `.rapid` in the current folder. `rapid fetch` uses the same folder.
pub fn home() -> PathBuf {
    if let Some(home) = variable("RAPID_HOME") {
        return home;
    }
    let cache = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    cache.map_or_else(|| PathBuf::from(".rapid"), |cache| cache.join("rapid"))
}

/// The path in an environment variable, if it is set and not empty.
pub(super) fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// A cache key: the digest of everything that a file depends on, as `Debug` writes it.
pub(crate) fn key(content: impl std::fmt::Debug) -> String {
    let content = format!("{content:?}");
    blake3::hash(content.as_bytes()).to_hex().to_string()
}

/// The image stored in the folder under a key. If there is none, calls `make` and stores its image. A damaged file is replaced. A folder that cannot be written
/// only costs time at the next start.
pub(super) fn cached<E>(
    folder: &Path,
    key: &str,
    make: impl FnOnce() -> Result<Image, E>,
) -> Result<Image, E> {
    let file = folder.join(format!("{key}.kernels"));
    let read = fs::read(&file);
    if let Some(image) = read.ok().and_then(|bytes| decode(&bytes)) {
        return Ok(image);
    }
    let image = make()?;
    if let Err(error) = write(folder, &file, &image) {
        tracing::warn!(
            "compiled kernels cannot be stored in {}: {error}",
            file.display()
        );
    }
    Ok(image)
}

/// Writes a temporary file and renames it.
fn write(folder: &Path, file: &Path, image: &Image) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(&encode(image))?;
    temporary.as_file().sync_all()?;
    temporary.persist(file)?;
    Ok(())
}

/// The format: digest of the remaining bytes, the names as a line of JSON, the image.
fn encode(image: &Image) -> Vec<u8> {
    let names = serde_json::json!(image.names).to_string();
    let body = [names.as_bytes(), b"\n", &image.bytes].concat();
    [blake3::hash(&body).as_bytes().as_slice(), &body].concat()
}

fn decode(bytes: &[u8]) -> Option<Image> {
    let (digest, body) = bytes.split_at_checked(blake3::OUT_LEN)?;
    if blake3::hash(body).as_bytes() != digest {
        return None;
    }
    let end = body.iter().position(|byte| *byte == b'\n')?;
    Some(Image {
        names: serde_json::from_slice(&body[..end]).ok()?,
        bytes: body[end + 1..].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(bytes: &[u8]) -> Image {
        Image {
            bytes: bytes.to_vec(),
            names: vec!["_Z5scaleIfEvPT_mf".into(), "adamw".into()],
        }
    }

    /// The image that [`cached`] returns; if it compiles, `compiled` is the result, and `None` an error.
    fn get(folder: &Path, compiled: Option<&[u8]>) -> Image {
        let make = || compiled.map(image).ok_or("it was compiled again");
        cached(folder, "a", make).unwrap()
    }

    #[test]
    fn an_image_is_compiled_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("kernels");
        assert_eq!(get(&cache, Some(b"\x7fELF")), image(b"\x7fELF"));
        assert_eq!(get(&cache, None), image(b"\x7fELF"));
        // No temporary file is left.
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
        // A folder that cannot be written is no error.
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(get(&file.join("kernels"), Some(b"x")), image(b"x"));
    }

    #[test]
    fn a_damaged_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.kernels");
        let intact = encode(&image(b"\x7fELF and so on"));
        let mut flipped = intact.clone();
        flipped[60] ^= 1;
        for damaged in [&intact[..intact.len() - 1], &flipped, b""] {
            fs::write(&file, damaged).unwrap();
            assert_eq!(get(folder.path(), Some(b"new")), image(b"new"));
            assert_eq!(get(folder.path(), None), image(b"new"));
        }
    }
}
