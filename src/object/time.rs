use serde::{Deserialize, Serialize};

/// STUB, replaced by the types helper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(i64);
