use serde::Deserialize;

use super::nullable;

/// What a list says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The state of the cluster that the list shows; a watch goes on from here. Empty if the server sent none.
    #[serde(deserialize_with = "nullable")]
    pub resource_version: String,
    /// Asks for the next page; empty on the last one.
    #[serde(rename = "continue", deserialize_with = "nullable")]
    pub continue_token: String,
    /// How many objects the pages after this one hold, if the server says so (it does not where a selector is used).
    pub remaining_item_count: Option<u64>,
    /// The `apiVersion` of the list as sent.
    #[serde(skip)]
    pub api_version: String,
    /// The `kind` of the list as sent: `PodList`.
    #[serde(skip)]
    pub kind: String,
}

/// A list of objects, as one answer of the API server or put together from its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<K> {
    /// What it says about itself.
    pub metadata: ListMeta,
    /// The objects, in the order of the server: by namespace and name.
    pub items: Vec<K>,
}

impl<K> List<K> {
    /// The objects.
    pub fn iter(&self) -> std::slice::Iter<'_, K> {
        self.items.iter()
    }
}

impl<K> IntoIterator for List<K> {
    type Item = K;
    type IntoIter = std::vec::IntoIter<K>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, K> IntoIterator for &'a List<K> {
    type Item = &'a K;
    type IntoIter = std::slice::Iter<'a, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
