//! The guide: what this crate is built on, how to use it, and what to do when something goes wrong.
//!
//! | page | answers |
//! |---|---|
//! | [`controller`] | how do I write a controller, from an empty folder to a deployment? |
//! | [`reconcile`] | what keeps it right; what wakes it, and how does it end? |
//! | [`testing`] | how do I test it without a cluster, under faults too? |
//! | [`cluster`] | what does it need in a cluster: rights, probes, metrics, logs, certificates, proxies? |
//! | [`troubleshooting`] | what does this message mean, and what is to be done? |
//! | [`cache`] | what does a cache promise, and what not? |
//! | [`list_modes`] | in which way should an informer list? |
//! | [`projections`] | a type with the fields I need, a ready-made one, or whole objects? |
//! | [`protocol`] | how do list and watch work, and where is that written upstream? |
//! | [`client_go`] | what is the name of client-go's … here? |
//! | [`kube_rs`] | what is the name of kube-rs's … here, and what is different? |
//!
//! These modules hold text alone. Each snippet of Rust is compiled with the tests of this crate.

#[doc = include_str!("cache.md")]
pub mod cache {}
#[doc = include_str!("client_go.md")]
pub mod client_go {}
#[doc = include_str!("cluster.md")]
pub mod cluster {}
#[doc = include_str!("controller.md")]
pub mod controller {}
#[doc = include_str!("kube_rs.md")]
pub mod kube_rs {}
#[doc = include_str!("list_modes.md")]
pub mod list_modes {}
#[doc = include_str!("projections.md")]
pub mod projections {}
#[doc = include_str!("protocol.md")]
pub mod protocol {}
#[doc = include_str!("reconcile.md")]
pub mod reconcile {}
#[doc = include_str!("testing.md")]
pub mod testing {}
#[doc = include_str!("troubleshooting.md")]
pub mod troubleshooting {}
