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
pub use controller::{Controller, Request};
pub use error::{ApplyConflict, Error, OptionalExt, Result, Unfit};
pub use events::{EventRecorder, EventType};
pub use leader::{LeaderElector, LeaseLock};
pub use object::{
    ApiResource, FieldSelector, IntOrString, Kinded, LabelSelector, List, ListMeta, Map, MicroTime, Object,
    ObjectKey, ObjectMeta, Operator, OwnerReference, Quantity, Resource, Scope, Selector, StaticResource,
    Status, Text, Time, Whole, nullable,
};
pub use stop::{OnStop, Stop};
pub use wire::{Bookmark, WatchEvent};
pub use workqueue::{Action, RateLimit, RateLimiter, WorkQueue, WorkerOptions, WorkerPool};
