//! A local copy of objects that follows the server: reflector → FIFO → store → handlers.

mod factory;
mod fifo;
mod handler;
mod health;
mod informer;
mod latch;
mod list_watch;
mod listener;
mod lister;
mod reflector;
mod run;
mod seldom;
mod store;
#[cfg(test)]
mod testing;
mod thread;
mod typed;
mod version;

pub use factory::InformerFactory;
pub use fifo::{Delta, Fifo};
pub use handler::{Deleted, Handler, Handlers, enqueue};
pub use health::{Activity, Fitness, Health};
pub use informer::{HandlerOptions, Informer, InformerBuilder};
pub use list_watch::{Events, ListWatch};
pub use listener::Registration;
pub use lister::{Lister, NamespaceLister};
pub use reflector::{ListMode, Reflector, Sink};
pub use store::{Change, Store, StoreWriter};
pub use typed::{TypedLister, TypedNamespaceLister};
