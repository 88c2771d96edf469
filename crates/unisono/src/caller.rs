//! Who asks: a name, the scope of what it may do, and the owner of the sessions that it sees.

use std::sync::Arc;

use unisono_api::token::Scope;

/// Who asks for something. The default may do everything: it is the program itself, and whoever has
/// the daemon's own token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    name: Option<Arc<str>>,
    scope: Scope,
    owner: Option<Arc<str>>,
}

impl Default for Caller {
    fn default() -> Caller {
        Caller {
            name: None,
            scope: Scope::Admin,
            owner: None,
        }
    }
}

impl Caller {
    /// A caller with a name. `owner`: whose sessions it sees and makes; none: everybody's, and it
    /// makes nobody's.
    pub fn new(name: impl Into<Arc<str>>, scope: Scope, owner: Option<Arc<str>>) -> Caller {
        Caller {
            name: Some(name.into()),
            scope,
            owner,
        }
    }

    /// Its name; none: the program itself, or whoever has the daemon's own token.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// What it may do.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Whose the sessions are that it makes.
    pub fn owner(&self) -> Option<&Arc<str>> {
        self.owner.as_ref()
    }

    /// The owner to whose sessions it is limited. One with the scope `admin` is not.
    pub fn sees_only(&self) -> Option<&Arc<str>> {
        match self.scope {
            Scope::Admin => None,
            _ => self.owner.as_ref(),
        }
    }

    /// Whether it may do what needs that scope.
    pub fn allows(&self, needed: Scope) -> bool {
        self.scope >= needed
    }

    /// Why it may not.
    pub fn refusal(&self, needed: Scope) -> String {
        let name = self.name.as_deref().unwrap_or("of the daemon");
        format!(
            "the token {name} has the scope `{}`, and this needs `{}`; `unisono tokens create` makes \
             another one",
            self.scope.name(),
            needed.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_may_do_what_those_before_it_may() {
        for (place, scope) in Scope::ALL.into_iter().enumerate() {
            let caller = Caller::new("a", scope, None);
            let allowed = Scope::ALL.map(|needed| caller.allows(needed));
            let expected: Vec<bool> = (0..4).map(|needed| needed <= place).collect();
            assert_eq!(allowed[..], expected, "{scope:?}");
        }
        assert!(Caller::default().allows(Scope::Admin));
    }

    #[test]
    fn an_owner_limits_all_but_an_admin() {
        let ada: Arc<str> = "ada".into();
        for scope in Scope::ALL {
            let caller = Caller::new("a", scope, Some(ada.clone()));
            let limited = (scope != Scope::Admin).then_some(&ada);
            assert_eq!(caller.sees_only(), limited, "{scope:?}");
            assert_eq!(caller.owner(), Some(&ada));
            assert_eq!(Caller::new("a", scope, None).sees_only(), None);
        }
    }
}
