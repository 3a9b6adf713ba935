use super::{Object, ObjectMeta, OwnerReference, Resource, StaticResource, Text};
use crate::error::{Error, Result};

/// An object that knows which kind it is: of a type that [`resource!`](crate::resource!) was told the kind of, or an
/// [`Object`]. So another object can point at it.
pub trait Kinded: Resource {
    /// Group and version, as `apps/v1`, and the kind.
    fn api_version_and_kind(&self) -> (Text, Text);
}

impl<K: StaticResource> Kinded for K {
    fn api_version_and_kind(&self) -> (Text, Text) {
        let resource = K::api_resource();
        ((&*resource.api_version).into(), (&*resource.kind).into())
    }
}

impl Kinded for Object {
    fn api_version_and_kind(&self) -> (Text, Text) {
        (self.api_version().into(), self.kind().into())
    }
}

impl OwnerReference {
    /// The reference that makes an object be deleted with `owner`, which must have been created: its uid counts. The
    /// object must be in the owner's namespace, or the owner in none.
    #[doc(alias = "owner_ref")]
    #[must_use]
    pub fn of(owner: &impl Kinded) -> Self {
        let (api_version, kind) = owner.api_version_and_kind();
        Self {
            api_version,
            kind,
            name: owner.name().into(),
            uid: owner.uid().into(),
            controller: None,
            block_owner_deletion: None,
        }
    }

    /// The same for the one owner that manages the object, whose foreground deletion waits for it: as `NewControllerRef`
    /// of apimachinery's `meta/v1`. To add it to an object that may have another, see
    /// [`ObjectMeta::set_controller_reference`].
    #[doc(alias = "controller_owner_ref")]
    #[doc(alias = "NewControllerRef")]
    #[must_use]
    pub fn controller_of(owner: &impl Kinded) -> Self {
        Self { controller: Some(true), block_owner_deletion: Some(true), ..Self::of(owner) }
    }

    /// Whether both are of one name and kind, in any version of its group.
    fn is_namesake(&self, other: &Self) -> bool {
        let group = |reference: &Self| {
            reference.api_version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned())
        };
        self.kind == other.kind && self.name == other.name && group(self) == group(other)
    }
}

impl ObjectMeta {
    /// Makes `owner` the object's controller, by the rules of controller-runtime's `SetControllerReference`: a reference
    /// to it that is there already, also in another version or of an earlier owner of that name, is written anew.
    ///
    /// The garbage collector deletes an object whose owner is in another namespace. So the namespace of the object
    /// must be filled in where the owner has one.
    ///
    /// # Errors
    /// If another object is its controller, it is in another namespace or none, or the owner was not created yet. They
    /// [are about the argument](Error::is_invalid_argument), and the object is as before.
    pub fn set_controller_reference(&mut self, owner: &impl Kinded) -> Result<()> {
        let reference = OwnerReference::controller_of(owner);
        let refuse = |why: String| {
            let (object, kind, owner) = (self.key(), &reference.kind, owner.key());
            Err(Error::invalid(format!("{kind} {owner} cannot be the controller of {object}: {why}")))
        };
        match owner.namespace() {
            _ if reference.uid.is_empty() => {
                return refuse("it has no uid, so it was not created yet".into());
            }
            Some(_) if self.namespace.is_empty() => {
                return refuse("that has no namespace, and its owner has one".into());
            }
            Some(namespace) if self.namespace != *namespace => {
                return refuse("an owner must be in the same namespace".into());
            }
            _ => {}
        }
        let is_controller = |other: &&OwnerReference| other.controller == Some(true);
        match self.owner_references.iter().find(is_controller) {
            Some(other) if !other.is_namesake(&reference) => {
                return refuse(format!("that is {} {}", other.kind, other.name));
            }
            _ => {}
        }
        match self.owner_references.iter_mut().find(|other| other.is_namesake(&reference)) {
            Some(same) => *same = reference,
            None => self.owner_references.push(reference),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ConfigMap, Deployment, Node};

    fn deployment() -> Deployment {
        let metadata = ObjectMeta { uid: "u-1".into(), ..ObjectMeta::named("web").in_namespace("shop") };
        Deployment { metadata, ..Deployment::default() }
    }

    fn child() -> ObjectMeta {
        ObjectMeta::named("child").in_namespace("shop")
    }

    #[test]
    fn an_owner_is_named_alike_as_a_type_and_as_a_whole_object() {
        let mut whole =
            Object::new("apps/v1", "Deployment", ObjectMeta::named("web").in_namespace("shop")).unwrap();
        whole.set("/metadata/uid", "u-1").unwrap();
        let reference = OwnerReference::of(&whole);
        assert_eq!(reference, OwnerReference::of(&deployment()));
        let written = serde_json::to_value(&reference).unwrap();
        let expected =
            serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u-1"});
        assert_eq!(written, expected);
        let controller = OwnerReference::controller_of(&whole);
        assert_eq!((controller.controller, controller.block_owner_deletion), (Some(true), Some(true)));
    }

    #[test]
    fn a_controller_is_set_once_and_its_reference_renewed() {
        let (mut owner, mut child) = (deployment(), child());
        let mut other = OwnerReference::of(&ConfigMap::default());
        other.name = "other".into();
        child.owner_references = vec![other.clone()];
        child.set_controller_reference(&owner).unwrap();
        assert_eq!(child.owner_references, [other.clone(), OwnerReference::controller_of(&owner)]);
        owner.metadata.uid = "u-2".into();
        child.owner_references[1].api_version = "apps/v1beta1".into();
        child.set_controller_reference(&owner).unwrap();
        assert_eq!(child.owner_references, [other, OwnerReference::controller_of(&owner)]);
    }

    #[test]
    fn what_another_one_controls_stays_its_own() {
        let (first, mut second, mut child) = (deployment(), deployment(), child());
        child.set_controller_reference(&first).unwrap();
        let before = child.clone();
        second.metadata.name = "shop".into();
        let error = child.set_controller_reference(&second).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Deployment shop/shop cannot be the controller of shop/child: that is Deployment web"
        );
        assert!(error.is_invalid_argument() && child == before);
    }

    #[test]
    fn an_owner_in_another_namespace_is_refused_and_one_in_none_is_not() {
        for namespace in ["", "other"] {
            let mut child = ObjectMeta::named("child").in_namespace(namespace);
            let error = child.set_controller_reference(&deployment()).unwrap_err();
            assert!(error.to_string().contains("namespace"), "{error}");
            assert!(error.is_invalid_argument() && child.owner_references.is_empty());
        }
        let mut node = Node { metadata: ObjectMeta::named("n1"), ..Node::default() };
        assert!(child().set_controller_reference(&node).unwrap_err().to_string().contains("no uid"));
        node.metadata.uid = "u-3".into();
        let mut child = child();
        child.set_controller_reference(&node).unwrap();
        assert_eq!(child.owner_references[0].name, "n1");
    }
}
