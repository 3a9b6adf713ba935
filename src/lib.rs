//! SKELETON: crate docs are written with the README.

pub mod object;

mod clock;
mod config;
mod error;
mod stop;

pub use clock::{Clock, Timer};
#[cfg(feature = "kubeconfig")]
pub use config::KubeconfigOptions;
pub use config::{ClientCertificate, Config, Credentials, Impersonate, Pem, Secret, TlsOptions};
pub use error::{Error, OptionalExt, Result};
pub use object::{
    ApiResource, Map, ObjectKey, ObjectMeta, OwnerReference, Resource, Scope, StaticResource, Status, Whole,
    nullable,
};
pub use stop::{OnStop, Stop};
