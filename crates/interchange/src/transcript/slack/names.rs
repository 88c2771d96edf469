//! The names of users, from the list of users and from the profiles in messages.

use std::collections::{BTreeMap, HashMap};

use super::{Object, Value, text_of};

/// The name of each user by id, and the real names that are not part of it.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) shown: HashMap<String, String>,
    pub(crate) real: HashMap<String, String>,
}

/// The names of the users in all elements of a channel. A message may have the profile of a user whom
/// an earlier message mentions. A user has the display name, or else the real name. Users with the
/// same name have the real name or the id behind it.
pub(crate) fn names<'t>(elements: impl Iterator<Item = &'t str>) -> Names {
    let mut users: BTreeMap<String, (String, String)> = BTreeMap::new();
    for element in elements {
        let object = Value::parse(element).and_then(Value::object).ok();
        let (id, name, real) = match object.and_then(|object| user(&object)) {
            Some(user) => user,
            None => continue,
        };
        users.insert(id, (name, real));
    }
    let mut bearers: HashMap<String, usize> = HashMap::new();
    for (name, _) in users.values() {
        *bearers.entry(name.clone()).or_default() += 1;
    }
    let mut names = Names::default();
    for (id, (name, real)) in users {
        let is_shared = bearers.get(&name).is_some_and(|bearers| *bearers > 1);
        let is_real_new = !real.is_empty() && real != name;
        let shown = match (is_shared, is_real_new) {
            (true, true) => format!("{name} ({real})"),
            (true, false) => format!("{name} ({id})"),
            (false, is_dropped) => {
                if is_dropped {
                    names.real.insert(id.clone(), real);
                }
                name
            }
        };
        names.shown.insert(id, shown);
    }
    names
}

/// The id of a user or of a message's sender, the name, and the real name.
fn user(object: &Object<'_>) -> Option<(String, String, String)> {
    let text = |object: &Object<'_>, key: &str| text_of(object, key).ok().flatten();
    let (id, profile) = match super::is_user(object) {
        true => (text(object, "id")?, object.get("profile")?),
        false => (text(object, "user")?, object.get("user_profile")?),
    };
    let profile = profile.object().ok()?;
    let real = text(&profile, "real_name").or_else(|| text(object, "real_name"));
    let name = text(&profile, "display_name").or_else(|| real.clone());
    let name = name.or_else(|| text(object, "name"))?;
    Some((id, name, real.unwrap_or_default()))
}
