//! What can be asked of each verb. Plain values: `Default` is what the API server does when not told otherwise.

use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::request::Query;
use crate::error::{Error, Result};

/// Which objects to list, and from which moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ListParams {
    /// See [`labels`](Self::labels()); empty is all.
    pub labels: String,
    /// See [`fields`](Self::fields()); empty is all.
    pub fields: String,
    /// See [`limit`](Self::limit()).
    pub limit: u32,
    /// See [`continue_token`](Self::continue_token()); empty is the first page.
    pub continue_token: String,
    /// See [`resource_version`](Self::resource_version()).
    pub resource_version: Option<String>,
    /// See [`version_match`](Self::version_match()).
    pub version_match: Option<VersionMatch>,
    /// See [`silence`](Self::silence()).
    pub silence: Option<Duration>,
}

/// How a list's resourceVersion is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// The state of that very version.
    Exact,
    /// That state or a later one.
    NotOlderThan,
}

impl VersionMatch {
    fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
        }
    }
}

impl ListParams {
    /// Only objects whose labels match: `app=web,tier in (front,back)`. [`Selector`](crate::Selector) checks such a
    /// text before the server does.
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.labels = selector.to_string();
        self
    }

    /// Only objects whose fields match: `spec.nodeName=n1`, or `metadata.name=x`, which every kind has.
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.fields = selector.to_string();
        self
    }

    /// At most so many objects in one answer; 0 is no limit.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// The page behind the one that gave this token.
    pub fn continue_token(mut self, token: impl Into<String>) -> Self {
        self.continue_token = token.into();
        self
    }

    /// From which version: none is the latest, `0` whatever the server has at hand.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.resource_version = Some(version.into());
        self
    }

    /// How [`resource_version`](Self::resource_version) is meant.
    pub fn version_match(mut self, how: VersionMatch) -> Self {
        self.version_match = Some(how);
        self
    }

    /// After how long without a byte, before the answer or within it, the connection counts as dead; by default the
    /// client's [timeout](crate::Config::timeout).
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = Some(silence);
        self
    }

    pub(super) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add_text("labelSelector", &self.labels);
        query.add_text("fieldSelector", &self.fields);
        if self.limit > 0 {
            query.add("limit", &self.limit.to_string());
        }
        // A token holds the version already, and the server refuses both together.
        if self.continue_token.is_empty() {
            query.add_text("resourceVersion", self.resource_version.as_deref().unwrap_or_default());
            query.add_text("resourceVersionMatch", self.version_match.map_or("", VersionMatch::as_str));
        } else {
            query.add("continue", &self.continue_token);
        }
        query
    }
}

/// Which objects to watch, and from which moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct WatchParams {
    /// See [`labels`](Self::labels()); empty is all.
    pub labels: String,
    /// See [`fields`](Self::fields()); empty is all.
    pub fields: String,
    /// See [`resource_version`](Self::resource_version()).
    pub resource_version: String,
    /// See [`timeout`](Self::timeout()).
    pub timeout: Option<Duration>,
    /// See [`silence`](Self::silence()).
    pub silence: Option<Duration>,
    /// See [`bookmarks`](Self::bookmarks()).
    pub bookmarks: bool,
    /// See [`initial_events`](Self::initial_events()).
    pub initial_events: bool,
}

impl Default for WatchParams {
    fn default() -> Self {
        Self {
            labels: String::new(),
            fields: String::new(),
            resource_version: String::new(),
            timeout: None,
            silence: None,
            bookmarks: true,
            initial_events: false,
        }
    }
}

impl WatchParams {
    /// As [`ListParams::labels`]. An object that no longer matches is told as deleted.
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.labels = selector.to_string();
        self
    }

    /// As [`ListParams::fields`].
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.fields = selector.to_string();
        self
    }

    /// Changes after this version. Empty, the default, is the present state as `Added` events in any order, then
    /// changes.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.resource_version = version.into();
        self
    }

    /// After how long the server ends the watch, in whole seconds; by default a random time between 180 and 210 s, so
    /// that many clients do not come back at once, and below what load balancers allow; or somewhat less than
    /// [`silence`](Self::silence()), if that is given.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// After how long without a byte the connection counts as dead; by default the server's timeout and 10 s, as the
    /// server then should have ended it. It also limits the wait for the connection and for the answer's head.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = Some(silence);
        self
    }

    /// Whether the server may send bookmarks (a version without a change), which keep a quiet watch's version from
    /// expiring. On by default.
    pub fn bookmarks(mut self, on: bool) -> Self {
        self.bookmarks = on;
        self
    }

    /// The present state as `Added` events, then a bookmark that says that it was all, then changes: a list as a
    /// stream. Kubernetes 1.32 or newer.
    pub fn initial_events(mut self) -> Self {
        self.initial_events = true;
        self
    }

    pub(super) fn query(&self, timeout: Duration) -> Query {
        let mut query = Query::default();
        query.add("watch", "true");
        query.add_text("labelSelector", &self.labels);
        query.add_text("fieldSelector", &self.fields);
        query.add_text("resourceVersion", &self.resource_version);
        query.add_flag("allowWatchBookmarks", self.bookmarks || self.initial_events);
        if self.initial_events {
            query.add("sendInitialEvents", "true");
            query.add("resourceVersionMatch", VersionMatch::NotOlderThan.as_str());
        }
        query.add("timeoutSeconds", &timeout.as_secs().max(1).to_string());
        query
    }
}

/// How to create or replace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct PostParams {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: Option<FieldValidation>,
}

/// What the server does with fields that it does not know, or that are there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drops them.
    Ignore,
    /// Drops them with a warning: the server's default.
    Warn,
    /// Refuses the request.
    Strict,
}

impl FieldValidation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

impl PostParams {
    /// Do all but store it.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Who changes: recorded for server-side apply.
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = name.into();
        self
    }

    /// What to do with unknown fields.
    pub fn field_validation(mut self, how: FieldValidation) -> Self {
        self.field_validation = Some(how);
        self
    }

    pub(super) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add_text("fieldManager", &self.field_manager);
        query.add_text("dryRun", if self.dry_run { "All" } else { "" });
        query.add_text("fieldValidation", self.field_validation.map_or("", FieldValidation::as_str));
        query
    }
}

/// How to patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct PatchParams {
    post: PostParams,
    pub(super) force: bool,
}

impl PatchParams {
    /// For [`Patch::Apply`], which must say who applies.
    pub fn apply(field_manager: impl Into<String>) -> Self {
        Self { post: PostParams::default().field_manager(field_manager), force: false }
    }

    /// Take fields over from other managers. Only for [`Patch::Apply`].
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Do all but store it.
    pub fn dry_run(mut self) -> Self {
        self.post.dry_run = true;
        self
    }

    /// Who changes.
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.post = self.post.field_manager(name);
        self
    }

    /// What to do with unknown fields.
    pub fn field_validation(mut self, how: FieldValidation) -> Self {
        self.post = self.post.field_validation(how);
        self
    }

    pub(super) fn check_apply(&self) -> Result<()> {
        if self.post.field_manager.is_empty() {
            return Err(Error::invalid(
                "a server-side apply needs a field manager: PatchParams::apply(\"my-program\")",
            ));
        }
        Ok(())
    }

    pub(super) fn query(&self) -> Query {
        let mut query = self.post.query();
        query.add_flag("force", self.force);
        query
    }
}

/// A change to an object, in one of the four ways that the API knows. `P` is anything that can be written as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch<P> {
    /// RFC 6902: a list of operations, `[{"op": "test", …}, {"op": "add", …}]`.
    Json(P),
    /// RFC 7386: fields to set, null to remove; lists are replaced whole.
    Merge(P),
    /// As merge, but lists are merged by their keys. Not for custom resources.
    Strategic(P),
    /// Server-side apply: the fields that this program wants, created if there is no object.
    Apply(P),
}

impl<P> Patch<P> {
    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
            // JSON is YAML, and every server that knows apply takes this name.
            Self::Apply(_) => "application/apply-patch+yaml",
        }
    }
}

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct DeleteParams {
    dry_run: bool,
    grace_period: Option<Duration>,
    policy: Option<PropagationPolicy>,
    uid: String,
    resource_version: String,
}

/// What becomes of the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PropagationPolicy {
    /// They stay.
    Orphan,
    /// They are deleted afterwards.
    Background,
    /// They are deleted first, those that block their owner's deletion.
    Foreground,
}

impl DeleteParams {
    /// Deletes what the object owns afterwards.
    pub fn background() -> Self {
        Self::default().propagation(PropagationPolicy::Background)
    }

    /// Deletes what the object owns first.
    pub fn foreground() -> Self {
        Self::default().propagation(PropagationPolicy::Foreground)
    }

    /// Leaves what the object owns.
    pub fn orphan() -> Self {
        Self::default().propagation(PropagationPolicy::Orphan)
    }

    /// What becomes of what the object owns; by default the kind decides.
    pub fn propagation(mut self, policy: PropagationPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// How long a pod may take to end, in whole seconds; zero kills it. By default the pod decides.
    pub fn grace_period(mut self, time: Duration) -> Self {
        self.grace_period = Some(time);
        self
    }

    /// Only if the object has this uid, and is not a later one of the same name.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Only if the object has not changed since.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.resource_version = version.into();
        self
    }

    /// Do all but store it.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// As the body `DeleteOptions`.
impl Serialize for DeleteParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Preconditions<'a> {
            #[serde(skip_serializing_if = "str::is_empty")]
            uid: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            resource_version: &'a str,
        }

        let Self { dry_run, grace_period, policy, uid, resource_version } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("apiVersion", "v1")?;
        map.serialize_entry("kind", "DeleteOptions")?;
        if *dry_run {
            map.serialize_entry("dryRun", &["All"])?;
        }
        if let Some(policy) = policy {
            map.serialize_entry("propagationPolicy", policy)?;
        }
        if let Some(time) = grace_period {
            map.serialize_entry("gracePeriodSeconds", &time.as_secs())?;
        }
        if !uid.is_empty() || !resource_version.is_empty() {
            map.serialize_entry("preconditions", &Preconditions { uid, resource_version })?;
        }
        map.end()
    }
}
