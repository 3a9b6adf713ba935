//! The files: where they may be, how they are written, and which are ours.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::hash::BuildHasher;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use log::warn;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::claims::Object;
use super::settings::Settings;

/// How our own files begin: which files are ours, the lock, and what is written before it gets its name. No key may.
const OWN: &str = ".config-sync.";

/// Bytes of the name of a file.
const NAME_MAX: usize = 255;
/// Bytes of a path, and one.
const PATH_MAX: usize = 4096;

pub(crate) struct Folder {
    root: PathBuf,
    /// What is chosen: those of another selection have a list of their own, though they share the folder.
    selection: String,
    /// `OWN` and the selection, for names.
    prefix: String,
    /// Of no other process, whatever it shares with us.
    temporary: String,
    /// Held while this is there; let go of by the system when the process ends.
    _lock: File,
    allowed: Vec<PathBuf>,
    annotation: String,
    unique: bool,
    mode: u32,
    /// What is written down is not `ours`: the next time.
    unsaved: bool,
    /// Never less than what is on the disk and was written by us: written down before a file is, and after one is removed.
    ours: BTreeSet<PathBuf>,
}

#[derive(Serialize, Deserialize, Default)]
struct State {
    selection: String,
    /// Those below the folder relative to it, as it may be mounted elsewhere next time.
    files: BTreeSet<PathBuf>,
}

impl Folder {
    /// Makes the folder if there is none, and reads which files in it are ours. Fails if another process has the same
    /// selection there.
    pub(crate) fn open(settings: &Settings) -> io::Result<Self> {
        let root = settings.folder.clone();
        fs::create_dir_all(&root)?;
        let selection = settings.selection();
        let prefix = format!("{OWN}{:016x}", hash(&selection));
        let mut folder = Self {
            _lock: lock(&root.join(format!("{prefix}.lock")))?,
            // Ids of processes are all 1 in containers.
            temporary: format!("{prefix}.{:016x}.tmp", RandomState::new().hash_one(std::process::id())),
            selection,
            prefix,
            allowed: settings.allowed.clone(),
            annotation: settings.folder_annotation.clone(),
            unique: settings.unique_filenames,
            mode: settings.file_mode,
            unsaved: false,
            ours: BTreeSet::new(),
            root,
        };
        folder.ours = folder.load();
        let folders: BTreeSet<_> = folder.ours.iter().filter_map(|path| path.parent()).collect();
        folders.into_iter().chain([&*folder.root]).for_each(|path| folder.remove_temporaries(path));
        Ok(folder)
    }

    /// Where the file of this key belongs, or why there can be none.
    pub(crate) fn place(&self, object: &Object, key: &str) -> Result<PathBuf, String> {
        let (metadata, source) = (object.metadata(), object.source());
        let name = match self.unique {
            true => {
                let (namespace, kind) = (metadata.namespace.as_str(), source.kind.name());
                format!("namespace_{namespace}.{kind}_{}.{key}", metadata.name)
            }
            false => key.to_owned(),
        };
        if key.contains(['/', '\0']) || [".", "..", ""].contains(&&*name) || name.starts_with(OWN) {
            return Err(format!("{source}: key {key:?} is refused: it cannot be the name of a file here"));
        }
        let wanted = metadata.annotations.get(&self.annotation).unwrap_or_default();
        let refused = |why: &str| format!("{source}: folder {wanted:?} is refused: {why}");
        if wanted.contains('\0') {
            return Err(refused("it cannot be one"));
        }
        // Written in one way, or one file would have two names; what is absolute replaces the root.
        let mut path = PathBuf::new();
        for part in self.root.join(wanted).components() {
            match part {
                Component::ParentDir => return Err(refused("it has '..' in it")),
                Component::CurDir => {}
                part => path.push(part),
            }
        }
        if self.base(&path).is_none() {
            return Err(refused("it is outside of FOLDER and ALLOWED_FOLDERS"));
        }
        path.push(name);
        // Those of Linux: a try would fail each time.
        if path.as_os_str().len() >= PATH_MAX || path.iter().any(|part| part.len() > NAME_MAX) {
            return Err(format!("{source}: key {key:?} is refused: the name of its file is too long"));
        }
        Ok(path)
    }

    /// The allowed folder that `path` is in.
    fn base(&self, path: &Path) -> Option<&Path> {
        let mut bases = std::iter::once(&self.root).chain(&self.allowed);
        bases.find(|base| path.starts_with(base)).map(PathBuf::as_path)
    }

    /// The folder of a file: none that is below the allowed one is a symbolic link, which might lead anywhere.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(&'a Path, Vec<&'a Path>)> {
        let parent = path.parent().unwrap_or(path);
        let Some(base) = self.base(parent) else {
            return Err(refused(parent, "is outside of what is allowed"));
        };
        let mut missing: Vec<_> = parent.ancestors().take_while(|folder| *folder != base).collect();
        missing.reverse();
        while let Some(folder) = missing.first() {
            match fs::symlink_metadata(folder) {
                Ok(there) if there.is_dir() => drop(missing.remove(0)),
                Ok(_) => return Err(refused(folder, "is no folder, or a symbolic link")),
                Err(e) if e.kind() == ErrorKind::NotFound => break,
                Err(e) => return Err(named(folder, &e)),
            }
        }
        Ok((parent, missing))
    }

    /// Gives the file this content and mode, at once. `false` if it has both already, or the content.
    pub(crate) fn write(&self, path: &Path, content: &[u8]) -> io::Result<bool> {
        let (parent, missing) = self.parent(path)?;
        match fs::symlink_metadata(path) {
            Ok(there) if there.is_dir() => return Err(refused(path, "is a folder")),
            Ok(there) if there.is_file() && has(path, &there, content) => {
                let mode = Permissions::from_mode(self.mode);
                // A file of another user can be replaced, not changed.
                if there.permissions().mode() & 0o7777 == self.mode || fs::set_permissions(path, mode).is_ok()
                {
                    return Ok(false);
                }
            }
            _ => {}
        }
        for folder in missing {
            fs::create_dir(folder).map_err(|e| named(folder, &e))?;
        }
        fs::create_dir_all(parent).map_err(|e| named(parent, &e))?; // an allowed one
        self.replace(path, content, self.mode, false).map_err(|e| named(path, &e))?;
        Ok(true)
    }

    /// `false` if it is not there, or is no file.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<bool> {
        if !self.parent(path)?.1.is_empty() || !fs::symlink_metadata(path).is_ok_and(|there| !there.is_dir())
        {
            return Ok(false);
        }
        fs::remove_file(path).map_err(|e| named(path, &e))?;
        Ok(true)
    }

    /// The files that were written by us, in this life or an earlier one.
    pub(crate) fn ours(&self) -> &BTreeSet<PathBuf> {
        &self.ours
    }

    /// Notes that these are ours: before they are written.
    pub(crate) fn own<'a>(&mut self, paths: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<()> {
        let before = self.ours.len();
        self.ours.extend(paths.into_iter().cloned());
        self.unsaved |= self.ours.len() != before;
        self.save()
    }

    /// Notes that these are ours no more: after they were removed.
    pub(crate) fn disown(&mut self, paths: &[PathBuf]) -> io::Result<()> {
        let before = self.ours.len();
        for path in paths {
            self.ours.remove(path);
        }
        self.unsaved |= self.ours.len() != before;
        self.save()
    }

    fn state(&self) -> PathBuf {
        self.root.join(format!("{}.json", self.prefix))
    }

    fn load(&self) -> BTreeSet<PathBuf> {
        let path = self.state();
        let state = match fs::read(&path) {
            Ok(text) => serde_json::from_slice::<State>(&text).map_err(|e| e.to_string()),
            Err(e) if e.kind() == ErrorKind::NotFound => return BTreeSet::new(),
            Err(e) => Err(e.to_string()),
        };
        let state = state.and_then(|state| match state.selection == self.selection {
            true => Ok(state),
            false => Err(format!("it is of {}", state.selection)),
        });
        let files = state.unwrap_or_else(|e| {
            warn!("{}: {e}: files whose objects have gone meanwhile stay", path.display());
            State::default()
        });
        // Whoever can write the folder could write anything into that file.
        let sound = |path: &PathBuf| {
            path.components().all(|part| matches!(part, Component::Normal(_) | Component::RootDir))
                && path.parent().is_some_and(|parent| self.base(parent).is_some())
        };
        files.files.iter().map(|path| self.root.join(path)).filter(sound).collect()
    }

    fn save(&mut self) -> io::Result<()> {
        if !self.unsaved {
            return Ok(());
        }
        let files =
            self.ours.iter().map(|path| path.strip_prefix(&self.root).unwrap_or(path).to_owned()).collect();
        let text = serde_json::to_vec(&State { selection: self.selection.clone(), files })?;
        // On the disk before what it tells of is.
        let path = self.state();
        self.replace(&path, &text, 0o600, true).map_err(|e| named(&path, &e))?;
        self.unsaved = false;
        Ok(())
    }

    /// Writes another file and gives it the name.
    fn replace(&self, path: &Path, content: &[u8], mode: u32, durable: bool) -> io::Result<()> {
        let temporary = path.with_file_name(&self.temporary);
        let fill = |mut file: File| {
            file.write_all(content)?;
            file.set_permissions(Permissions::from_mode(mode))?;
            if durable {
                file.sync_all()?;
            }
            fs::rename(&temporary, path)
        };
        // A new one, always: one that is there may be a link.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        fill(made).inspect_err(|_| drop(fs::remove_file(&temporary)))
    }

    /// What an earlier run left behind in this folder.
    fn remove_temporaries(&self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let is = |name: &str| name.starts_with(&self.prefix) && name.ends_with(".tmp");
            if name.to_str().is_some_and(is) && self.remove(&path).unwrap_or_default() {
                warn!("removed {}, left behind by an earlier run", path.display());
            }
        }
    }
}

/// FNV-1a, which is the same in every release.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn lock(path: &Path) -> io::Result<File> {
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(nofollow);
    let file = options.open(path).map_err(|e| named(path, &e))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(refused(path, "is held: another config_sync mirrors the same here")),
        // Some file systems have no locks.
        Err(e) => {
            warn!("{}: {e}: whether another config_sync mirrors the same here is not known", path.display());
            Ok(file)
        }
    }
}

fn has(path: &Path, there: &Metadata, content: &[u8]) -> bool {
    there.len() == content.len() as u64 && fs::read(path).is_ok_and(|now| now == content)
}

/// Whether another try fails, too, unless objects change or somebody changes the folder.
pub(crate) fn is_lasting(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("{} {why}", path.display()))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
