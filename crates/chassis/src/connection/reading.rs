//! Sockets that are read in large pieces.
//!
//! Whoever decrypts asks for some kilobytes at a time. Lists of thousands of objects are tens of megabytes, and each
//! question to the operating system costs more than to take in what it answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::Service;

/// How much is read at once.
const PIECE: usize = 64 << 10;

/// Opens what is read in large pieces.
#[derive(Clone)]
pub(super) struct InPieces<C>(pub(super) C);

impl<C> Service<Uri> for InPieces<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
{
    type Response = Pieces<C::Response>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let opened = self.0.call(to);
        Box::pin(async move { opened.await.map(Pieces::of) })
    }
}

/// A socket that is read in large pieces.
pub(super) struct Pieces<S> {
    socket: S,
    piece: Box<[u8]>,
    /// What of the piece was read and not yet handed on.
    from: usize,
    to: usize,
}

impl<S> Pieces<S> {
    fn of(socket: S) -> Self {
        // Of what is never read into, the operating system gives no memory.
        Self { socket, piece: vec![0; PIECE].into(), from: 0, to: 0 }
    }
}

impl<S: Read + Unpin> Read for Pieces<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, piece, from, to } = self.get_mut();
        if from == to {
            let mut read = ReadBuf::new(piece);
            ready!(Pin::new(socket).poll_read(context, read.unfilled()))?;
            (*from, *to) = (0, read.filled().len());
        }
        let next = &piece[*from..*to];
        let next = &next[..next.len().min(into.remaining())];
        into.put_slice(next);
        *from += next.len();
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for Pieces<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, bytes)
    }
}

impl<S: Connection> Connection for Pieces<S> {
    fn connected(&self) -> Connected {
        self.socket.connected()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use super::*;

    /// A socket that gives these one after the other, and says how often it was asked.
    struct Gives(VecDeque<Vec<u8>>, usize);

    impl Read for Gives {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            mut into: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            let own = self.get_mut();
            own.1 += 1;
            match own.0.pop_front() {
                Some(next) if next.is_empty() => Poll::Pending,
                Some(mut next) => {
                    let rest = next.split_off(next.len().min(into.remaining()));
                    into.put_slice(&next);
                    if !rest.is_empty() {
                        own.0.push_front(rest);
                    }
                    Poll::Ready(Ok(()))
                }
                None => Poll::Ready(Ok(())),
            }
        }
    }

    /// What is read in pieces of at most so many bytes until nothing more comes, and how often the socket was asked.
    fn read(gives: &[&str], most: usize) -> (String, usize) {
        let gives = gives.iter().map(|own| own.as_bytes().to_vec()).collect();
        let mut pieces = Pieces::of(Gives(gives, 0));
        let (mut all, mut memory) = (Vec::new(), vec![0; most]);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let mut into = ReadBuf::new(&mut memory);
            let answer = Pin::new(&mut pieces).poll_read(&mut context, into.unfilled());
            match answer {
                Poll::Ready(answer) => answer.unwrap(),
                Poll::Pending => continue,
            }
            if into.filled().is_empty() {
                return (String::from_utf8(all).unwrap(), pieces.socket.1);
            }
            all.extend_from_slice(into.filled());
        }
    }

    #[test]
    fn what_is_read_in_pieces_is_what_came_and_the_socket_is_asked_once_for_each_of_them() {
        let long = "abc".repeat(PIECE / 3 + 1);
        for most in [1, 7, 4096] {
            assert_eq!(read(&[], most), (String::new(), 1));
            assert_eq!(read(&["hello ", "", "world"], most), ("hello world".into(), 4));
            assert_eq!(read(&[&long], most), (long.clone(), 3));
        }
    }
}
