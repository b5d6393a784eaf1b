//! The rendezvous file: rank 0 writes where it listens and a fresh secret, the others read it.
//!
//! A file of an earlier job that was killed may lie there. It leads to nobody, or to somebody who
//! does not know its secret any more; the others read again until rank 0 has replaced it.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// No file of ours is longer.
const MAX_FILE: u64 = 64 << 10;

/// Where rank 0 is, and what only those know who may read this. It also travels through the
/// program's own all-gather.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    pub format: u32,
    pub job: String,
    pub host: String,
    /// Where rank 0 is, for messages.
    pub process: String,
    pub addresses: Vec<SocketAddr>,
    pub secret: [u8; 32],
}

impl Note {
    pub(super) const FORMAT: u32 = 1;

    pub(super) fn parse(bytes: &[u8], job: &str) -> Result<Note, String> {
        let note: Note = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is not written by lycaon: {error}"))?;
        if note.format != Self::FORMAT {
            return Err(format!("it has format {}, not {}", note.format, Self::FORMAT));
        }
        if note.job != job {
            return Err(format!("it belongs to job {:?}, not {job:?}", note.job));
        }
        if note.addresses.is_empty() || note.addresses.len() > 1000 {
            return Err(format!("it has {} addresses", note.addresses.len()));
        }
        Ok(note)
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a note is plain data")
    }
}

/// Makes the private folder of this user, and makes sure that it is one.
pub(super) fn private_folder(folder: &Path) -> Result<(), String> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.to_string()),
    }
    let found = fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    let user = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        return Err(format!(
            "it must be a folder of user {user} that nobody else can use (mode 0700); remove it"
        ));
    }
    Ok(())
}

/// A note in place; it is taken away when this is dropped.
#[derive(Debug)]
pub(super) struct Published {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Published {
    /// Writes the note so that nobody ever sees a part of it or, but for this user, any of it.
    pub(super) fn write(path: &Path, note: &Note) -> io::Result<Self> {
        let bytes = note.to_json();
        let mut name = path.file_name().unwrap_or_default().to_owned();
        let mark: String = note.secret[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        name.push(format!(".{}.{mark}.tmp", std::process::id()));
        let draft = path.with_file_name(name);
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(&bytes)?;
            // Other hosts of a shared disk must find the content with the name.
            file.sync_all()?;
            drop(file);
            fs::rename(&draft, path)
        };
        if let Err(error) = write() {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        Ok(Published { path: path.to_owned(), bytes })
    }

    /// The note of another rank 0 of the same job that has taken this one's place.
    pub(super) fn replaced(&self, job: &str) -> Option<Note> {
        let bytes = read_bounded(&self.path).ok()?;
        if bytes == self.bytes { None } else { Note::parse(&bytes, job).ok() }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // The file of a later job that uses the same path stays.
        if read_bounded(&self.path).is_ok_and(|bytes| bytes == self.bytes) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe or a terminal must not block.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is too long to be a rendezvous file"));
    }
    Ok(bytes)
}

/// Reads the note, or says why there is none yet.
pub(super) fn read(path: &Path, job: &str) -> Result<Note, String> {
    let bytes = read_bounded(path).map_err(|error| error.to_string())?;
    Note::parse(&bytes, job)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn note(secret: u8) -> Note {
        Note {
            format: Note::FORMAT,
            job: "test".to_owned(),
            host: "a".to_owned(),
            process: "host a, process 7".to_owned(),
            addresses: vec!["10.0.0.1:5".parse().unwrap(), "[::1]:5".parse().unwrap()],
            secret: [secret; 32],
        }
    }

    #[test]
    fn a_note_is_private_replaces_and_goes_with_its_owner() {
        let folder = super::super::tests::folder("note");
        let path = folder.join("meet");
        let first = Published::write(&path, &note(1)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&path, "test"), Ok(note(1)));
        assert!(read(&path, "other").unwrap_err().contains("belongs to job \"test\""));
        assert_eq!(first.replaced("test"), None);
        let second = Published::write(&path, &note(2)).unwrap();
        assert_eq!(first.replaced("test"), Some(note(2)));
        assert_eq!(first.replaced("other"), None);
        drop(first);
        assert_eq!(read(&path, "test"), Ok(note(2)), "the later job's file stays");
        drop(second);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "no draft is left");
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn odd_files_are_reasons_not_failures() {
        let folder = super::super::tests::folder("odd");
        let path = folder.join("meet");
        assert!(read(&path, "test").unwrap_err().contains("No such file"));
        fs::create_dir(&path).unwrap();
        assert!(read(&path, "test").is_err());
        fs::remove_dir(&path).unwrap();
        fs::write(&path, vec![b'x'; 100_000]).unwrap();
        assert!(read(&path, "test").unwrap_err().contains("too long"));
        fs::write(&path, "{}").unwrap();
        assert!(read(&path, "test").unwrap_err().contains("not written by lycaon"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_private_folder_must_be_private() {
        let folder = super::super::tests::folder("private");
        let own = folder.join("own");
        private_folder(&own).unwrap();
        private_folder(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(private_folder(&own).unwrap_err().contains("0700"));
        let link = folder.join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(private_folder(&link).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Note::parse(&bytes, "test");
        }
    }
}
