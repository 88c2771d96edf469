//! Engines on top of another engine.

/// Writes methods of [`Engine`](crate::Engine) that pass on to the engine in a field:
/// `forward_engine!(field: read, session, health);` inside the `impl`.
#[macro_export]
macro_rules! forward_engine {
    (@ask $engine:tt $method:ident($($argument:ident: $type:ty),*) -> $answer:ty) => {
        fn $method(&self, $($argument: $type),*) -> $crate::EngineFuture<'_, $answer> {
            self.$engine.$method($($argument),*)
        }
    };
    (@claim $engine:tt) => {
        $crate::forward_engine!(@ask $engine claim(session: $crate::SessionId) -> $crate::Claim);
    };
    (@append $engine:tt) => {
        $crate::forward_engine!(@ask $engine append(append: $crate::Append) -> u64);
    };
    (@read $engine:tt) => {
        $crate::forward_engine!(
            @ask $engine read(session: $crate::SessionId, from: u64, limit: usize)
                -> Vec<$crate::Event>
        );
    };
    (@first_events $engine:tt) => {
        $crate::forward_engine!(
            @ask $engine first_events(sessions: Vec<$crate::SessionId>)
                -> Vec<Option<$crate::Event>>
        );
    };
    (@last_events $engine:tt) => {
        $crate::forward_engine!(
            @ask $engine last_events(sessions: Vec<$crate::SessionInfo>)
                -> Vec<Option<$crate::Event>>
        );
    };
    (@put_checkpoint $engine:tt) => {
        $crate::forward_engine!(
            @ask $engine put_checkpoint(
                session: $crate::SessionId, epoch: u64, checkpoint: $crate::Checkpoint
            ) -> ()
        );
    };
    (@latest_checkpoint $engine:tt) => {
        $crate::forward_engine!(
            @ask $engine latest_checkpoint(session: $crate::SessionId)
                -> Option<$crate::Checkpoint>
        );
    };
    (@session $engine:tt) => {
        $crate::forward_engine!(
            @ask $engine session(session: $crate::SessionId) -> Option<$crate::SessionInfo>
        );
    };
    (@existing $engine:tt) => {
        $crate::forward_engine!(
            @ask $engine existing(sessions: Vec<$crate::SessionId>) -> Vec<$crate::SessionInfo>
        );
    };
    (@sessions $engine:tt) => {
        $crate::forward_engine!(
            @ask $engine sessions(after: Option<$crate::SessionId>, limit: usize)
                -> Vec<$crate::SessionInfo>
        );
    };
    (@newest_sessions $engine:tt) => {
        $crate::forward_engine!(
            @ask $engine newest_sessions(before: Option<$crate::SessionId>, limit: usize)
                -> Vec<$crate::SessionInfo>
        );
    };
    (@delete_session $engine:tt) => {
        $crate::forward_engine!(@ask $engine delete_session(deletion: $crate::Deletion) -> bool);
    };
    (@space $engine:tt) => {
        $crate::forward_engine!(@ask $engine space() -> $crate::Space);
    };
    (@cluster $engine:tt) => {
        fn cluster(&self) -> Option<&dyn $crate::Cluster> {
            self.$engine.cluster()
        }
    };
    (@health $engine:tt) => {
        fn health(&self) -> $crate::Health {
            self.$engine.health()
        }
    };
    // Methods without arguments that answer nothing.
    (@$unit:ident $engine:tt) => {
        $crate::forward_engine!(@ask $engine $unit() -> ());
    };
    ($engine:tt: $($method:ident),+ $(,)?) => {
        $($crate::forward_engine!(@$method $engine);)+
    };
}
