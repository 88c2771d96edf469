//! The caller of a service: its name, its scope, and the owner of the sessions that it sees.

use std::sync::Arc;

use unisono_api::token::Scope;
use unisono_context::Digest;

/// A caller. The default is the program itself or the daemon's own token; it may do everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    name: Option<Arc<str>>,
    scope: Scope,
    owner: Option<Arc<str>>,
    token: Option<Digest>,
}

impl Default for Caller {
    fn default() -> Caller {
        Caller {
            name: None,
            scope: Scope::Admin,
            owner: None,
            token: None,
        }
    }
}

impl Caller {
    /// Makes a caller with a name. It sees and creates the sessions of `owner`. Without an owner it
    /// sees all sessions and creates sessions without an owner.
    pub fn new(name: impl Into<Arc<str>>, scope: Scope, owner: Option<Arc<str>>) -> Caller {
        Caller {
            name: Some(name.into()),
            scope,
            owner,
            token: None,
        }
    }

    /// Sets the digest of its token.
    #[must_use]
    pub fn with_token(mut self, token: Digest) -> Caller {
        self.token = Some(token);
        self
    }

    /// The digest of its token; `None` for the program itself, the daemon's own token and users of a
    /// proxy.
    pub fn token(&self) -> Option<Digest> {
        self.token
    }

    /// Its name; `None` for the program itself and the daemon's own token.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Its rights.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The owner of the sessions that it creates.
    pub fn owner(&self) -> Option<&Arc<str>> {
        self.owner.as_ref()
    }

    /// The owner whose sessions alone it sees. The scope `admin` sees all sessions.
    pub fn sees_only(&self) -> Option<&Arc<str>> {
        match self.scope {
            Scope::Admin => None,
            _ => self.owner.as_ref(),
        }
    }

    /// Whether it has that scope or a wider one.
    pub fn allows(&self, required: Scope) -> bool {
        self.scope >= required
    }

    /// The text of a refusal for lack of the scope `required`.
    pub fn refusal(&self, required: Scope) -> String {
        let name = self.name.as_deref().unwrap_or("of the daemon");
        format!(
            "the token {name} has the scope `{}`, but this requires `{}`; make a token with it by \
             `unisono tokens create`",
            self.scope.name(),
            required.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_includes_the_scopes_before_it() {
        for (place, scope) in Scope::ALL.into_iter().enumerate() {
            let caller = Caller::new("a", scope, None);
            let allowed = Scope::ALL.map(|required| caller.allows(required));
            let expected: Vec<bool> = (0..4).map(|required| required <= place).collect();
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
