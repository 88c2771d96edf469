//! Tests of bodies with several pieces.

use std::pin::pin;
use std::task::Waker;

use super::*;

fn frames(body: Pieces) -> Vec<Bytes> {
    let mut body = pin!(body);
    let mut context = Context::from_waker(Waker::noop());
    let mut frames = Vec::new();
    let mut left = body.size_hint().exact();
    while !body.is_end_stream() {
        let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut context) else {
            panic!("a piece must be there at once");
        };
        let data = frame.into_data().unwrap();
        left = left.map(|left| left - data.len() as u64);
        assert_eq!(body.size_hint().exact(), left, "the length is always known");
        frames.push(data);
    }
    assert!(matches!(body.poll_frame(&mut context), Poll::Ready(None)));
    frames
}

#[test]
fn pieces_are_sent_in_order_without_a_copy_and_empty_ones_left_out() {
    let head = Bytes::from_static(b"head");
    let tail = Bytes::from(b"tail".to_vec());
    let body = Pieces::new([Bytes::new(), head.clone(), tail.clone(), Bytes::new()]);
    assert_eq!(body.size_hint().exact(), Some(8));
    let sent = frames(body.clone());
    assert_eq!(sent, [head.clone(), tail.clone()]);
    assert_eq!(sent[0].as_ptr(), head.as_ptr());
    assert_eq!(sent[1].as_ptr(), tail.as_ptr());
    assert_eq!(frames(body), sent, "a clone starts from the beginning");
}

#[test]
fn empty_pieces_make_an_empty_body() {
    assert!(frames(Pieces::new([const { Bytes::new() }; 4])).is_empty());
}
