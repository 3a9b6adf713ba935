use serde::{Deserialize, Serialize};

use super::{ObjectMeta, Resource};

/// Of an object of any kind its metadata alone. The server is asked for no more, so lists and watches of it are a fraction
/// of the whole, and a cache of it is the cheapest there is: for owners, labels, and counting.
///
/// The place of the kind is said where it is used; the server calls all of them `meta.k8s.io/v1 PartialObjectMetadata`,
/// which every server with kinds of its own or of CustomResourceDefinitions knows since Kubernetes 1.15. One behind the
/// aggregation layer may answer with 406.
///
/// ```no_run
/// # use listwatch::{Api, Client, ListParams, PartialObjectMetadata, Result, StaticResource, types::Secret};
/// # fn names(client: &Client) -> Result<()> {
/// let secrets = Api::<PartialObjectMetadata>::all_with(client, &Secret::api_resource());
/// for secret in secrets.list(&ListParams::default())?.items {
///     println!("{}", secret.metadata.key()); // and the program has read no secret
/// }
/// # Ok(())
/// # }
/// ```
///
/// It is read, patched and deleted by it, not created or replaced. In a controller: [`Controller::owns_with`](crate::Controller::owns_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialObjectMetadata {
    /// What every object carries.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl Resource for PartialObjectMetadata {
    const METADATA_ONLY: bool = true;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}
