use std::fmt;
use std::sync::Arc;

use super::warm::Inbox;
use crate::cache::{Change, Handlers};
use crate::object::{ObjectKey, ObjectMeta, Resource};

/// Which changes of a kind a [`Controller`](super::Controller) is woken by.
///
/// A predicate saves calls; it must not be needed for what is right, as every object is given at the start of each run
/// (if the predicate lets it pass as [added](Change::Added)), and one that fails is tried again.
///
/// What the ready-made ones hide, beside what they are for:
///
/// | predicate | hides |
/// |---|---|
/// | [`generation_changed`](Self::generation_changed) | status, labels, annotations, finalizers, owner references; *all* changes of kinds that count no generation (ConfigMap, Secret, ServiceAccount, Event, …) and of custom resources without the status subresource only those of metadata |
/// | [`labels_changed`](Self::labels_changed), [`annotations_changed`](Self::annotations_changed) | spec, status, finalizers, owner references |
/// | [`finalizers_changed`](Self::finalizers_changed) | all else |
/// | [`resource_version_changed`](Self::resource_version_changed) | [resyncs](crate::InformerFactory::resync) alone |
///
/// All of them let an object pass that is there, that is gone, and that begins to be deleted, so that one with a finalizer
/// is never left to wait: controller-runtime's hide that beginning, but for the generation's. *That another finalizer was
/// taken away* they hide, so a finalizer that has to be the last one needs `.or(Predicate::finalizers_changed())`. Several
/// are joined by [`or`](Self::or) and [`and`](Self::and).
///
/// A predicate of one's own may hide anything: one that hides [`Deleted`](Change::Deleted) of a kind that is owned or
/// watched keeps the owner from making it again.
///
/// ```
/// # use listwatch::controller::Predicate;
/// # use listwatch::cache::Change;
/// # use listwatch::types::Deployment;
/// let spec_or_labels = Predicate::<Deployment>::generation_changed().or(Predicate::labels_changed());
/// let not_ours = Predicate::new(|change: &Change<Deployment>| match change {
///     Change::Updated { old, new } => old.status != new.status,
///     _ => true,
/// });
/// let both = spec_or_labels.and(not_ours);
/// ```
pub struct Predicate<K>(Option<Passes<K>>);

type Passes<K> = Arc<dyn Fn(&Change<K>) -> bool + Send + Sync>;

impl<K> Predicate<K> {
    /// Lets everything pass.
    #[must_use]
    pub fn all() -> Self {
        Self(None)
    }
}

impl<K: Resource> Predicate<K> {
    /// Lets pass what `f` says. It is called on the thread of the informer's handler, with no lock held.
    #[must_use]
    pub fn new(f: impl Fn(&Change<K>) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(f)))
    }

    /// Changes of what is wanted: the server counts them in `metadata.generation`.
    #[must_use]
    pub fn generation_changed() -> Self {
        Self::differing(|old, new| old.generation != new.generation)
    }

    /// Changes of labels.
    #[must_use]
    pub fn labels_changed() -> Self {
        Self::differing(|old, new| old.labels != new.labels)
    }

    /// Changes of annotations.
    #[must_use]
    pub fn annotations_changed() -> Self {
        Self::differing(|old, new| old.annotations != new.annotations)
    }

    /// Changes of finalizers.
    #[must_use]
    pub fn finalizers_changed() -> Self {
        Self::differing(|old, new| old.finalizers != new.finalizers)
    }

    /// Any change, but no resync.
    #[must_use]
    pub fn resource_version_changed() -> Self {
        Self::differing(|old, new| old.resource_version != new.resource_version)
    }

    /// What passes both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |change| self.passes(change) && other.passes(change))
    }

    /// What passes one of them.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |change| self.passes(change) || other.passes(change))
    }

    /// Whether a change passes.
    #[must_use]
    pub fn passes(&self, change: &Change<K>) -> bool {
        self.0.as_ref().is_none_or(|f| f(change))
    }

    fn differing(differ: fn(&ObjectMeta, &ObjectMeta) -> bool) -> Self {
        Self::new(move |change| match change {
            Change::Updated { old, new } => {
                let deletion = !old.is_deleting() && new.is_deleting();
                // Of another object under the same name nothing is known.
                deletion || old.uid() != new.uid() || differ(old.metadata(), new.metadata())
            }
            Change::Added(_) | Change::Deleted { .. } => true,
        })
    }

    /// A handler that adds the keys that an object has to do with, as it was and as it is, where the change passes.
    pub(super) fn handler(
        self,
        inbox: &Inbox,
        keys: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Handlers<K> {
        let inbox = inbox.clone();
        let see = Arc::new(move |change: Change<K>| {
            if !self.passes(&change) {
                return;
            }
            let (old, new) = match change {
                Change::Updated { old, new } => (Some(old), new),
                Change::Added(object) | Change::Deleted { object, .. } => (None, object),
            };
            // Each once: between two adds of a key it could be worked on.
            let mut all = keys(&new);
            let before = old.map(|old| keys(&old)).unwrap_or_default();
            all.extend(before);
            all.sort();
            all.dedup();
            all.into_iter().for_each(|key| inbox.add(key));
        });
        let (added, updated, deleted) = (see.clone(), see.clone(), see);
        Handlers::new()
            .on_add(move |object: &Arc<K>, _| added(Change::Added(object.clone())))
            .on_update(move |old, new| updated(Change::Updated { old: old.clone(), new: new.clone() }))
            .on_delete(move |gone| {
                let (object, final_state_known) = (gone.object.clone(), gone.final_state_known);
                deleted(Change::Deleted { object, final_state_known });
            })
    }
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_none() { "Predicate(all)" } else { "Predicate(…)" })
    }
}
