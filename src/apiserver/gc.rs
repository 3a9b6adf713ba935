//! What a delete brings about: finalizers, dependents, the contents of namespaces and of resource definitions.
//!
//! All of it happens at once, under the lock of the request that began it, where a cluster has controllers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::{CRDS, NAMESPACES};
use super::store::{Key, Object, Place, State, owner_uids};
use super::tree::{child, list, metadata, text};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// What becomes of the objects that are owned by a deleted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay, without this owner.
    Orphan,
}

impl State {
    /// Deletes an object with all consequences. Returns the object if it had to wait for something, as it was then.
    pub(super) fn delete(&mut self, place: &Place, propagation: Propagation) -> Option<Arc<Object>> {
        let object = self.get(&place.0, &place.1)?;
        let uid = text(&object.body, "/metadata/uid").to_string();
        // What a namespace or a definition holds goes with it in any case.
        let holds_others = matches!(&*place.0, NAMESPACES | CRDS);
        let waiting = match if holds_others { Propagation::Background } else { propagation } {
            Propagation::Background => self.request_deletion(place),
            Propagation::Orphan => {
                let waiting = self.mark_with(place, &object, ORPHAN);
                self.disown(&uid);
                self.drop_finalizer(place, ORPHAN);
                waiting
            }
            Propagation::Foreground => {
                let waiting = self.mark_with(place, &object, FOREGROUND);
                for dependent in self.owned_by(&uid) {
                    self.request_deletion(&dependent);
                }
                self.finish_foreground(&uid);
                waiting
            }
        };
        self.settle();
        waiting
    }

    /// Whether an object's deletion was asked for and nothing holds it any more.
    pub(super) fn is_released(&self, table: &str, body: &Value) -> bool {
        let name = text(body, "/metadata/name");
        !text(body, "/metadata/deletionTimestamp").is_empty()
            && list(body, "/metadata/finalizers").is_empty()
            && match table {
                NAMESPACES => self.in_namespace(name).is_empty(),
                CRDS => self.objects(name).is_empty(),
                _ => true,
            }
    }

    /// Deletes an object that was written with owners none of whom exists.
    pub(super) fn collect_if_orphaned(&mut self, table: &Arc<str>, object: &Object) {
        if self.is_orphaned(&object.body) {
            self.request_deletion(&(Arc::clone(table), object.key.clone()));
            self.settle();
        }
    }

    fn is_orphaned(&self, body: &Value) -> bool {
        let mut owners = owner_uids(body).peekable();
        owners.peek().is_some() && owners.all(|uid| self.by_uid(uid).is_none())
    }

    /// Draws the consequences of all removals, and of the removals those lead to.
    pub(super) fn settle(&mut self) {
        while let Some((table, object)) = self.gone.pop_front() {
            for dependent in self.owned_by(text(&object.body, "/metadata/uid")) {
                let orphaned = |o: Arc<Object>| self.is_orphaned(&o.body);
                if self.get(&dependent.0, &dependent.1).is_some_and(orphaned) {
                    self.request_deletion(&dependent);
                }
            }
            for owner in owner_uids(&object.body) {
                self.finish_foreground(owner);
            }
            self.remove_if_released(NAMESPACES, &object.key.namespace);
            self.remove_if_released(CRDS, &table);
            if &*table == CRDS {
                self.forget_kind(&object.key.name);
            }
        }
    }

    /// Removes an object, or marks it as being deleted if something holds it: then returns it.
    fn request_deletion(&mut self, place: &Place) -> Option<Arc<Object>> {
        let (table, key) = place;
        let object = self.get(table, key)?;
        let holds_others = matches!(&**table, NAMESPACES | CRDS);
        if !text(&object.body, "/metadata/deletionTimestamp").is_empty() {
            return Some(object);
        }
        if list(&object.body, "/metadata/finalizers").is_empty() && !holds_others {
            self.remove(table, key);
            return None;
        }
        let marked = self.mark(place, object.body.clone());
        let contents: Vec<Place> = match &**table {
            NAMESPACES => self.in_namespace(&key.name),
            CRDS => {
                let kept_in: Arc<str> = key.name.as_str().into();
                self.objects(&kept_in).keys().map(|key| (Arc::clone(&kept_in), key.clone())).collect()
            }
            _ => Vec::new(),
        };
        for place in contents {
            self.request_deletion(&place);
        }
        self.remove_if_released(table, &key.name);
        Some(marked)
    }

    /// Marks an object as being deleted and held by a finalizer of the server, if it is not being deleted yet.
    fn mark_with(&mut self, place: &Place, object: &Object, finalizer: &str) -> Option<Arc<Object>> {
        if text(&object.body, "/metadata/deletionTimestamp").is_empty() {
            let mut body = object.body.clone();
            let finalizers = metadata(&mut body).entry("finalizers").or_insert(json!([]));
            if let Some(finalizers) = finalizers.as_array_mut() {
                finalizers.push(finalizer.into());
            }
            self.mark(place, body);
        }
        self.get(&place.0, &place.1)
    }

    /// Takes a finalizer off an object, which removes it if that was what held it.
    fn drop_finalizer(&mut self, (table, key): &Place, finalizer: &str) {
        let Some(object) = self.get(table, key) else { return };
        if !list(&object.body, "/metadata/finalizers").iter().any(|f| f == finalizer) {
            return;
        }
        let mut body = object.body.clone();
        without(&mut body, "finalizers", |f| f == finalizer);
        if self.is_released(table, &body) {
            self.remove(table, key);
        } else {
            self.store(table, key.clone(), body);
        }
    }

    fn mark(&mut self, (table, key): &Place, mut body: Value) -> Arc<Object> {
        let now = self.now();
        let holds_others = matches!(&**table, NAMESPACES | CRDS);
        let counts = !holds_others && self.kind_of(table).is_some_and(|kind| kind.generation);
        if &**table == NAMESPACES {
            child(&mut body, "status").insert("phase".into(), "Terminating".into());
        }
        let meta = metadata(&mut body);
        meta.insert("deletionTimestamp".into(), now.into());
        if !holds_others {
            meta.insert("deletionGracePeriodSeconds".into(), 0.into());
        }
        if counts {
            let generation = meta.get("generation").and_then(Value::as_i64).unwrap_or(0);
            meta.insert("generation".into(), (generation + 1).into());
        }
        self.store(table, key.clone(), body)
    }

    /// Removes a namespace or a resource definition whose deletion waited for its last object.
    fn remove_if_released(&mut self, table: &str, name: &str) {
        let key = Key { namespace: String::new(), name: name.into() };
        if !name.is_empty() && self.get(table, &key).is_some_and(|o| self.is_released(table, &o.body)) {
            self.remove(&table.into(), &key);
        }
    }

    /// Ends a foreground deletion if no dependent holds it any more.
    fn finish_foreground(&mut self, owner: &str) {
        let Some(place) = self.by_uid(owner).cloned() else { return };
        let blocks = |(table, key): &Place| {
            self.get(table, key).is_some_and(|dependent| {
                let refs = list(&dependent.body, "/metadata/ownerReferences");
                refs.iter()
                    .any(|r| text(r, "/uid") == owner && r.get("blockOwnerDeletion") == Some(&json!(true)))
            })
        };
        if !self.owned_by(owner).iter().any(blocks) {
            self.drop_finalizer(&place, FOREGROUND);
        }
    }

    /// Takes an owner off all its dependents.
    fn disown(&mut self, owner: &str) {
        for (table, key) in self.owned_by(owner) {
            if let Some(object) = self.get(&table, &key) {
                let mut body = object.body.clone();
                without(&mut body, "ownerReferences", |reference| text(reference, "/uid") == owner);
                self.store(&table, key, body);
            }
        }
    }
}

/// Takes items off a list of the metadata, and the list away if none are left.
fn without(body: &mut Value, field: &str, drops: impl Fn(&Value) -> bool) {
    let meta = metadata(body);
    if let Some(items) = meta.get_mut(field).and_then(Value::as_array_mut) {
        items.retain(|item| !drops(item));
        if items.is_empty() {
            meta.remove(field);
        }
    }
}
