//! Makes the files what the objects say.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;

use log::{info, warn};

use super::Failure;
use super::claims::{Claim, Claims, Object, Source};
use super::folder::{self, Folder};
use super::tally::Tally;

/// Finds an object in the cache.
pub(crate) type Find<'a> = &'a dyn Fn(&Source) -> Option<Object>;

pub(crate) struct Mirror {
    folder: Folder,
    claims: Claims,
    refused: HashMap<Source, usize>,
    /// Objects of which something could not be written or removed.
    failing: BTreeMap<Source, Trouble>,
    /// Files that could not be removed, or noted as ours: for the next time.
    missed: BTreeSet<PathBuf>,
    tally: Tally,
}

#[derive(Default)]
pub(crate) struct Trouble {
    pub(crate) why: String,
    /// Something is in the way, and stays there: no fault of the folder.
    pub(crate) lasting: bool,
}

impl Mirror {
    pub(crate) fn new(folder: Folder, tally: Tally) -> Self {
        Self {
            folder,
            claims: Claims::default(),
            refused: HashMap::new(),
            failing: BTreeMap::new(),
            missed: BTreeSet::new(),
            tally,
        }
    }

    /// Writes what all objects say, and removes what an earlier run left of others. Returns what failed: objects, and
    /// perhaps [`Source::earlier`].
    pub(crate) fn first(&mut self, objects: &[Object], find: Find<'_>) -> Result<Vec<Source>, Failure> {
        let mut touched = self.folder.ours().clone();
        for object in objects {
            let source = object.source();
            let wanted = self.wanted(&source, Some(object));
            touched.extend(self.claims.set(&source, wanted));
        }
        Ok(self.settle(&touched, find, &Source::earlier())?.1)
    }

    /// Does what the change of one object asks for. Returns whether a file has changed, and the objects that failed.
    pub(crate) fn follow(&mut self, source: &Source, find: Find<'_>) -> (bool, Vec<Source>) {
        let wanted = self.wanted(source, find(source).as_ref());
        let mut touched = self.claims.set(source, wanted);
        self.failing.remove(source);
        touched.append(&mut self.missed);
        self.settle(&touched, find, source).unwrap_or_else(|e| {
            self.failing.insert(source.clone(), Trouble { why: e.to_string(), lasting: false });
            self.tally.failing.set(self.failing.len());
            self.missed = touched;
            (false, vec![source.clone()])
        })
    }

    /// Why this object could not be mirrored the last time.
    pub(crate) fn failure(&self, source: &Source) -> Option<&Trouble> {
        self.failing.get(source)
    }

    fn wanted(&mut self, source: &Source, object: Option<&Object>) -> Vec<(PathBuf, Claim)> {
        let Some(object) = object else {
            self.refused.remove(source);
            return Vec::new();
        };
        let (mut wanted, mut refused) = (Vec::new(), BTreeSet::new());
        for key in object.keys() {
            match self.folder.place(object, key) {
                Ok(path) => {
                    let created = object.metadata().creation_timestamp;
                    wanted.push((path, Claim { created, source: source.clone(), key: key.to_owned() }));
                }
                Err(why) => drop(refused.insert(why)),
            }
        }
        refused.iter().for_each(|why| warn!("{why}"));
        self.refused.insert(source.clone(), object.keys().len() - wanted.len());
        wanted
    }

    /// Each of these files gets the content of whom it belongs to, or goes. Returns whether one has changed, and the
    /// objects that failed; a file that cannot be removed is `doing`'s failure.
    fn settle(
        &mut self,
        paths: &BTreeSet<PathBuf>,
        find: Find<'_>,
        doing: &Source,
    ) -> Result<(bool, Vec<Source>), Failure> {
        let (claimed, nobodys): (Vec<_>, Vec<_>) =
            paths.iter().partition(|path| self.claims.winner(path).is_some());
        self.folder.own(claimed.iter().copied())?;
        let (mut changed, mut removed) = (false, Vec::new());
        let mut failed = BTreeMap::<Source, Trouble>::new();
        let mut fail = |source: &Source, e: &io::Error| {
            let lasting = folder::is_lasting(e) && failed.get(source).is_none_or(|before| before.lasting);
            failed.insert(source.clone(), Trouble { why: e.to_string(), lasting });
        };
        for path in claimed {
            let Some(claim) = self.claims.winner(path) else { continue };
            // An object that has gone or lost the key meanwhile is in the queue.
            let Some(object) = find(&claim.source) else { continue };
            let Some(content) = object.content(&claim.key) else { continue };
            match self.folder.write(path, content) {
                Ok(true) => {
                    info!("wrote {} of {}", path.display(), claim.source);
                    self.tally.written.add();
                    changed = true;
                }
                Ok(false) => {}
                Err(e) => fail(&claim.source, &e),
            }
        }
        // After the others, so that a file that moves is at one of its places at least.
        for path in nobodys.into_iter().filter(|path| self.folder.ours().contains(*path)) {
            match self.folder.remove(path) {
                Ok(was_there) => {
                    if was_there {
                        info!("removed {}", path.display());
                        self.tally.removed.add();
                        changed = true;
                    }
                    removed.push(path.clone());
                }
                Err(e) => {
                    self.missed.insert(path.clone());
                    fail(doing, &e);
                }
            }
        }
        if let Err(e) = self.folder.disown(&removed) {
            warn!("{e}"); // it names more than there is, which does no harm
        }
        let sources = failed.keys().cloned().collect();
        self.failing.append(&mut failed);
        self.tally.files.set(self.folder.ours().len());
        self.tally.objects.set(self.claims.objects());
        self.tally.refused.set(self.refused.values().sum());
        self.tally.failing.set(self.failing.len());
        Ok((changed, sources))
    }
}
