//! The file system: one folder, `/usr/local/lib`, with one read-only file, the standard library's zip.

use std::sync::Arc;

use super::errno::{self, Errno};

/// The descriptor of the folder; 0, 1 and 2 are the standard streams.
pub(super) const FOLDER: i32 = 3;
/// Where the folder is mounted.
pub(super) const MOUNT: &[u8] = b"/usr/local/lib";
/// The file in it.
const LIBRARY: &[u8] = b"python315.zip";
/// Descriptors that a guest may have open.
const OPEN: usize = 64;

/// What a descriptor or a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// Standard input, output or error.
    Stream,
    /// `/usr/local/lib`.
    Folder,
    /// The zip.
    Library,
}

/// The open files of one guest.
pub(in crate::wasm) struct Files {
    library: Arc<[u8]>,
    /// Position of each open handle of the zip; the descriptor is the index plus 4.
    open: Vec<Option<u64>>,
}

impl Files {
    pub(in crate::wasm) fn new(library: Arc<[u8]>) -> Files {
        Files {
            library,
            open: Vec::new(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.library.len() as u64
    }

    /// What `fd` refers to.
    pub(super) fn node(&self, fd: i32) -> Result<Node, Errno> {
        match fd {
            0..=2 => Ok(Node::Stream),
            FOLDER => Ok(Node::Folder),
            _ => self.position(fd).map(|_| Node::Library),
        }
    }

    /// What `path` names below `fd`.
    pub(super) fn lookup(&self, fd: i32, path: &[u8]) -> Result<Node, Errno> {
        match self.node(fd)? {
            Node::Folder => {}
            Node::Stream | Node::Library => return Err(errno::NOTDIR),
        }
        match path {
            b"." | b"" => Ok(Node::Folder),
            _ if path == LIBRARY => Ok(Node::Library),
            _ if path.starts_with(LIBRARY) && path.get(LIBRARY.len()) == Some(&b'/') => {
                Err(errno::NOTDIR)
            }
            _ => Err(errno::NOENT),
        }
    }

    /// Opens the zip for reading.
    pub(super) fn open(&mut self, fd: i32, path: &[u8]) -> Result<i32, Errno> {
        match self.lookup(fd, path)? {
            Node::Library => {}
            Node::Folder => return Err(errno::ISDIR),
            Node::Stream => return Err(errno::INVAL),
        }
        let slot = match self.open.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if self.open.len() < OPEN => {
                self.open.push(None);
                self.open.len() - 1
            }
            None => return Err(errno::MFILE),
        };
        self.open[slot] = Some(0);
        Ok(FOLDER + 1 + slot as i32)
    }

    pub(super) fn close(&mut self, fd: i32) -> Result<(), Errno> {
        match fd {
            // Python closes none of these. A program may, and the descriptor must not then be reused for something else.
            0..=FOLDER => Ok(()),
            fd => {
                self.position(fd)?;
                self.open[(fd - FOLDER - 1) as usize] = None;
                Ok(())
            }
        }
    }

    pub(super) fn position(&self, fd: i32) -> Result<u64, Errno> {
        let slot =
            usize::try_from(i64::from(fd) - i64::from(FOLDER + 1)).map_err(|_| errno::BADF)?;
        self.open.get(slot).copied().flatten().ok_or(errno::BADF)
    }

    pub(super) fn seek(&mut self, fd: i32, offset: i64, whence: i32) -> Result<u64, Errno> {
        if self.node(fd)? != Node::Library {
            return Err(errno::SPIPE);
        }
        let base = match whence {
            0 => 0,
            1 => self.position(fd)?,
            2 => self.size(),
            _ => return Err(errno::INVAL),
        };
        let position = base.checked_add_signed(offset).ok_or(errno::INVAL)?;
        self.open[(fd - FOLDER - 1) as usize] = Some(position);
        Ok(position)
    }

    /// Copies from the zip at `position` into `target`; fewer bytes at its end.
    pub(super) fn read_at(&self, position: u64, target: &mut [u8]) -> usize {
        let start = usize::try_from(position)
            .map_or(self.library.len(), |start| start.min(self.library.len()));
        let length = target.len().min(self.library.len() - start);
        target[..length].copy_from_slice(&self.library[start..start + length]);
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        Files::new(Arc::from(&b"0123456789"[..]))
    }

    #[test]
    fn a_descriptor_reads_at_its_position_and_is_invalid_after_close() {
        let mut files = files();
        let fd = files.open(FOLDER, LIBRARY).unwrap();
        assert_eq!(files.seek(fd, -3, 2), Ok(7));
        let mut target = [0; 8];
        assert_eq!(files.read_at(7, &mut target), 3);
        assert_eq!(&target[..3], b"789");
        assert_eq!(files.read_at(u64::MAX, &mut target), 0);
        assert_eq!(files.seek(fd, -8, 1), Err(errno::INVAL));
        assert_eq!(files.close(fd), Ok(()));
        for gone in [fd, fd + 1, i32::MAX, i32::MIN, -1] {
            assert_eq!(files.seek(gone, 0, 1), Err(errno::BADF), "{gone}");
            assert_eq!(files.close(gone), Err(errno::BADF), "{gone}");
        }
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let mut files = files();
        for path in [
            &b"../../etc/passwd"[..],
            b"/etc/passwd",
            b"python315.zip2",
            b"x",
            b"\0",
            b"\xff",
        ] {
            assert_eq!(files.open(FOLDER, path), Err(errno::NOENT));
        }
        assert_eq!(files.open(FOLDER, b"."), Err(errno::ISDIR));
        assert_eq!(
            files.open(FOLDER, b"python315.zip/os.py"),
            Err(errno::NOTDIR)
        );
        assert_eq!(files.open(1, LIBRARY), Err(errno::NOTDIR));
        assert_eq!(files.open(9, LIBRARY), Err(errno::BADF));
    }

    #[test]
    fn open_descriptors_are_bounded() {
        let mut files = files();
        let opened = (0..1000)
            .take_while(|_| files.open(FOLDER, LIBRARY).is_ok())
            .count();
        assert_eq!(opened, OPEN);
        assert_eq!(files.open(FOLDER, LIBRARY), Err(errno::MFILE));
    }
}
