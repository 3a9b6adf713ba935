// Where the links of the README lead to in the documentation: of two definitions the first counts.
//! [guide]: crate::guide
//! [guide-controller]: crate::guide::controller
//! [guide-testing]: crate::guide::testing
//! [guide-cluster]: crate::guide::cluster
//! [guide-modes]: crate::guide::list_modes
//! [guide-troubleshooting]: crate::guide::troubleshooting
//! [guide-client-go]: crate::guide::client_go
//! [guide-kube-rs]: crate::guide::kube_rs
//! [InformerFactory]: crate::InformerFactory
//! [Informer]: crate::Informer
//! [Lister]: crate::Lister
//! [Controller]: crate::Controller
//! [WorkQueue]: crate::WorkQueue
//! [Stop]: crate::Stop
//! [Api]: crate::Api
//! [leader]: crate::leader
//! [events]: crate::events
//! [finalizer]: mod@crate::finalizer
//! [wait]: crate::wait
//! [metrics]: crate::metrics
//! [examples]: https://docs.rs/crate/listwatch/latest/source/examples/
//! [foo]: https://docs.rs/crate/listwatch/latest/source/examples/foo_controller.rs
//! [config-sync]: https://docs.rs/crate/listwatch/latest/source/examples/config_sync/
//! [sidecar]: https://docs.rs/crate/listwatch/latest/source/examples/sidecar.rs
//! [architecture]: https://docs.rs/crate/listwatch/latest/source/ARCHITECTURE.md
//! [contributing]: https://docs.rs/crate/listwatch/latest/source/CONTRIBUTING.md
//! [changelog]: https://docs.rs/crate/listwatch/latest/source/CHANGELOG.md
//!
#![doc = include_str!("../README.md")]

#[cfg(feature = "apiserver")]
pub mod apiserver;
pub mod cache;
pub mod client;
pub mod config;
pub mod controller;
pub mod events;
pub mod finalizer;
pub mod guide;
pub mod leader;
pub mod metrics;
pub mod object;
pub mod types;
pub mod wait;
pub mod wire;
pub mod workqueue;

mod backoff;
mod base64_text;
mod buffer;
mod clock;
mod error;
mod http;
mod shrink;
mod stop;
mod sync;

#[cfg(feature = "apiserver")]
pub use apiserver::ApiServer;
pub use cache::{
    Deleted, Handler, HandlerOptions, Handlers, Informer, InformerFactory, ListMode, Lister, Registration,
    enqueue,
};
pub use client::{
    Api, Client, DeleteParams, Deletion, Discovery, ListParams, LogLines, LogParams, Patch, PatchParams,
    PostParams, Watch, WatchParams,
};
pub use clock::Clock;
#[cfg(feature = "kubeconfig")]
pub use config::KubeconfigOptions;
pub use config::{Config, Credentials};
pub use controller::{Controller, Predicate, Request};
pub use error::{ApplyConflict, Error, OptionalExt, Result, Unfit};
pub use events::{EventRecorder, EventType};
pub use leader::{LeaderElector, LeaseLock};
pub use object::{
    ApiResource, FieldSelector, IntOrString, Kinded, LabelSelector, List, ListMeta, Map, MicroTime, Object,
    ObjectKey, ObjectMeta, Operator, OwnerReference, PartialObjectMetadata, Quantity, Resource, Scope,
    Selector, StaticResource, Status, Text, Time, Whole, nullable,
};
pub use stop::{OnStop, Stop};
pub use wire::{Bookmark, WatchEvent};
pub use workqueue::{Action, RateLimit, RateLimiter, WorkQueue, WorkerOptions, WorkerPool};
