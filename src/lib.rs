#![doc = include_str!("../README.md")]

#[cfg(feature = "apiserver")]
pub mod apiserver;
pub mod cache;
pub mod client;
pub mod config;
pub mod controller;
pub mod metrics;
pub mod object;
pub mod types;
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
pub use error::{Error, OptionalExt, Result, Unfit};
pub use object::{
    ApiResource, FieldSelector, IntOrString, LabelSelector, List, ListMeta, Map, MicroTime, Object,
    ObjectKey, ObjectMeta, Operator, OwnerReference, PartialObjectMetadata, Quantity, Resource, Scope,
    Selector, StaticResource, Status, Text, Time, Whole, nullable,
};
pub use stop::{OnStop, Stop};
pub use wire::{Bookmark, WatchEvent};
pub use workqueue::{Action, RateLimit, RateLimiter, WorkQueue, WorkerOptions, WorkerPool};
