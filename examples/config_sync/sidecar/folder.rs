//! The files: where they may be, how they are written, and which are ours.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use log::warn;
use serde::{Deserialize, Serialize};

use super::claims::Object;
use super::settings::Settings;

/// What is written before it gets its name.
const TEMPORARY: &str = ".config-sync.tmp";
/// Which files are ours, below the folder.
const STATE: &str = ".config-sync.json";

pub(crate) struct Folder {
    root: PathBuf,
    allowed: Vec<PathBuf>,
    annotation: String,
    unique: bool,
    mode: u32,
    /// Never less than what is on the disk and was written by us: written down before a file is, and after one is removed.
    ours: BTreeSet<PathBuf>,
}

#[derive(Serialize, Deserialize, Default)]
struct State {
    /// Those below the folder relative to it, as it may be mounted elsewhere next time.
    files: BTreeSet<PathBuf>,
}

impl Folder {
    /// Makes the folder if there is none, and reads which files in it are ours.
    pub(crate) fn open(settings: &Settings) -> io::Result<Self> {
        let root = settings.folder.clone();
        fs::create_dir_all(&root)?;
        let mut folder = Self {
            allowed: settings.allowed.clone(),
            annotation: settings.folder_annotation.clone(),
            unique: settings.unique_filenames,
            mode: settings.file_mode,
            ours: BTreeSet::new(),
            root,
        };
        folder.ours = folder.load();
        for path in &folder.ours {
            folder.remove_temporary(path)?;
        }
        folder.remove_temporary(&folder.root.join(STATE))?;
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
        if key.contains(['/', '\0']) || [".", "..", "", TEMPORARY, STATE].contains(&&*name) {
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
        Ok(path.join(name))
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
                if there.permissions().mode() & 0o7777 != self.mode {
                    fs::set_permissions(path, Permissions::from_mode(self.mode))
                        .map_err(|e| named(path, &e))?;
                }
                return Ok(false);
            }
            _ => {}
        }
        for folder in missing {
            fs::create_dir(folder).map_err(|e| named(folder, &e))?;
        }
        fs::create_dir_all(parent).map_err(|e| named(parent, &e))?; // an allowed one
        replace(path, content, self.mode, false).map_err(|e| named(path, &e))?;
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
        if self.ours.len() == before { Ok(()) } else { self.save() }
    }

    /// Notes that these are ours no more: after they were removed.
    pub(crate) fn disown(&mut self, paths: &[PathBuf]) -> io::Result<()> {
        let before = self.ours.len();
        for path in paths {
            self.ours.remove(path);
        }
        if self.ours.len() == before { Ok(()) } else { self.save() }
    }

    fn load(&self) -> BTreeSet<PathBuf> {
        let path = self.root.join(STATE);
        let state = match fs::read(&path) {
            Ok(text) => serde_json::from_slice::<State>(&text).map_err(|e| e.to_string()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(State::default()),
            Err(e) => Err(e.to_string()),
        };
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

    fn save(&self) -> io::Result<()> {
        let files =
            self.ours.iter().map(|path| path.strip_prefix(&self.root).unwrap_or(path).to_owned()).collect();
        let path = self.root.join(STATE);
        let text = serde_json::to_vec(&State { files })?;
        // On the disk before what it tells of is.
        replace(&path, &text, 0o600, true).map_err(|e| named(&path, &e))
    }

    fn remove_temporary(&self, path: &Path) -> io::Result<()> {
        let temporary = path.with_file_name(TEMPORARY);
        if self.remove(&temporary).unwrap_or_default() {
            warn!("removed {}, left behind by an earlier run", temporary.display());
        }
        Ok(())
    }
}

fn has(path: &Path, there: &Metadata, content: &[u8]) -> bool {
    there.len() == content.len() as u64 && fs::read(path).is_ok_and(|now| now == content)
}

/// Writes another file and gives it the name.
fn replace(path: &Path, content: &[u8], mode: u32, durable: bool) -> io::Result<()> {
    let temporary = path.with_file_name(TEMPORARY);
    // A new one: one that is there may be a link.
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let fill = |mut file: File| {
        file.write_all(content)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        if durable {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)
    };
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
    made.and_then(fill).inspect_err(|_| drop(fs::remove_file(&temporary)))
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
