//! Attachments of requests that come at the same time.

use unisono_context::attachment::{Content, Extent};
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::{MessageId, Timestamp};
use unisono_session::machine::Append;

use super::*;
use crate::AttachmentLimits;

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_the_same_time_stay_within_the_limit_of_the_session() {
    let options = Options {
        attachments: AttachmentLimits {
            session: 1_500,
            ..AttachmentLimits::default()
        },
        ..Options::default()
    };
    let runtime = start(&Gated::new(), options).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    let append = |n: u8| {
        let (width, height) = (1, 1);
        let content = Content::new(vec![n; 1_000].into(), Extent::Pixels { width, height });
        let part = Part::attachment("photo.gif", "image/gif", 1_000, Some(content));
        let id = MessageId::from_u128(u128::from(n) << 64);
        handle.append(Append {
            branch: "main".into(),
            message: NewMessage::new(id, Role::User, vec![part], Timestamp(1)),
            key: None,
        })
    };
    let (one, other) = tokio::join!(append(1), append(2));
    assert_ne!(one.is_ok(), other.is_ok(), "{one:?} {other:?}");
    let attached = handle.inspect(|state| state.attached_bytes()).await;
    assert_eq!(attached.unwrap(), 1_000);
    runtime.shutdown().await;
}
