package exchange

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
)

// decoders are the codings that are known. That of HTTP's "deflate" is zlib's.
var decoders = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
}

// codingNames are the codings that are known, for people.
const codingNames = "gzip or deflate"

// codingError says that a body is not of its coding.
type codingError struct {
	coding string
	err    error
}

func (e *codingError) Error() string { return fmt.Sprintf("%v, as %s", e.err, e.coding) }

// newDecoder reads body, which has a coding, without it; nil if the coding is not known. Its errors are those of body, an
// *Error, and io.EOF at the end of both. How much comes out of little is for the caller to bound.
func newDecoder(coding string, body io.Reader) io.Reader {
	if open := decoders[coding]; open != nil {
		from := &watched{Reader: body}
		return &decoding{coding: coding, from: from, buffer: bufio.NewReader(from), open: open}
	}
	return nil
}

// decoding undoes a coding. Its errors are those of what it reads from, a *Error, and the end.
type decoding struct {
	coding string
	from   *watched
	buffer *bufio.Reader // of from, so that no decoder has one of its own and takes what is behind its end
	open   func(io.Reader) (io.Reader, error)
	plain  io.Reader // nil before the first Read
}

func (d *decoding) Read(p []byte) (n int, err error) {
	if d.plain == nil {
		if d.plain, err = d.open(d.buffer); err != nil {
			d.plain = nil
			return 0, d.endCause(err)
		}
	}
	if n, err = d.plain.Read(p); err == nil {
		return n, nil
	}
	if err == io.EOF { // of the coding; the body should end there too
		if rest, _ := d.buffer.Discard(1); rest > 0 {
			err = errors.New("there is more behind its end")
		}
	}
	return n, d.endCause(err)
}

// endCause is why reading has ended.
func (d *decoding) endCause(err error) error {
	switch {
	case d.from.failed != nil:
		return d.from.failed
	case err == io.EOF && d.plain != nil:
		return err
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return &codingError{d.coding, err}
}

// watched notes why reading failed.
type watched struct {
	io.Reader
	failed error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && err != io.EOF {
		w.failed = err
	}
	return n, err
}
