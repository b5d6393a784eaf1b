//! The private folder of one job, in which its ranks meet.
//!
//! It is removed at the end of the job by the guardian. Should the guardian itself be killed, the
//! next job on this host removes it: a folder whose lock nobody holds belongs to nobody.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

const PREFIX: &str = "lycaon-job-";
const LOCK: &str = "lock";

/// A folder may be this young and not yet locked by its owner.
const YOUNG: Duration = Duration::from_secs(60);

pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder of `job` where the user's short-lived files belong.
    pub(crate) fn create(job: &str) -> io::Result<Self> {
        let place = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|place| place.is_absolute() && place.is_dir())
            .unwrap_or_else(std::env::temp_dir);
        Self::create_in(&place, job).or_else(|error| {
            // why: a runtime folder of another user (su, sudo) cannot be written to.
            let other = std::env::temp_dir();
            if other == place { Err(error) } else { Self::create_in(&other, job) }
        })
    }

    fn create_in(place: &Path, job: &str) -> io::Result<Self> {
        remove_abandoned(place);
        let path = place.join(format!("{PREFIX}{job}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::create(path.join(LOCK)).and_then(|lock| {
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(lock)
        });
        match lock {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // why: what cannot be removed now is found again by the next job.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of this user's jobs whose guardian was killed.
fn remove_abandoned(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    let user = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(about) = entry.metadata() else { continue };
        let young =
            about.modified().ok().and_then(|at| at.elapsed().ok()).is_none_or(|age| age < YOUNG);
        if about.is_dir() && about.uid() == user && !young && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(path: &Path) -> bool {
    match File::open(path.join(LOCK)) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn make_old(path: &Path) {
        let past = SystemTime::now() - 2 * YOUNG;
        File::open(path).unwrap().set_modified(past).unwrap();
    }

    #[test]
    fn the_folder_is_private_and_goes_with_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create_in(place.path(), "a").unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
        fs::write(folder.path().join("rendezvous"), "x").unwrap();
        assert!(Folder::create_in(place.path(), "a").is_err(), "a name is never shared");
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn only_old_folders_without_an_owner_are_swept() {
        let place = tempfile::tempdir().unwrap();
        let alive = Folder::create_in(place.path(), "alive").unwrap();
        make_old(alive.path());
        let abandon = |job: &str| {
            let path = place.path().join(format!("{PREFIX}{job}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join(LOCK), "").unwrap();
            path
        };
        let (old, young) = (abandon("old"), abandon("young"));
        make_old(&old);
        let stranger = place.path().join("lycaon-journal");
        fs::create_dir(&stranger).unwrap();
        make_old(&stranger);
        drop(Folder::create_in(place.path(), "next").unwrap());
        assert!(alive.path().exists() && young.exists() && stranger.exists());
        assert!(!old.exists());
    }
}
