package batch

import (
	"bufio"
	"bytes"
	"io"
)

// Reader reads the lines of a batch file one by one. It holds one line at a time.
type Reader struct {
	rules  Rules
	in     *bufio.Reader
	number int
}

// NewReader makes a Reader of a file.
func NewReader(in io.Reader, rules Rules) *Reader {
	return &Reader{rules: rules, in: bufio.NewReaderSize(in, 64<<10)}
}

// Next returns the next line that is not blank, or what is wrong with it, a *LineError, after which the next line may be
// read. At the end it returns io.EOF; other errors are those of the file.
func (r *Reader) Next() (*Line, error) {
	for {
		text, long, err := r.read()
		if err != nil {
			return nil, err
		}
		if r.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\uFEFF"))
		}
		if long {
			return nil, &LineError{r.number, "line_too_long", "", "the line has more than " + byteCountText(r.rules.MaxLine) + ", the limit: split the request"}
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		line, wrong := r.rules.parse(r.number, text)
		if wrong != nil {
			return nil, wrong
		}
		return line, nil
	}
}

// read returns the text of the next line; long says that there was more of it than may be. The text is the caller's.
func (r *Reader) read() (text []byte, long bool, err error) {
	r.number++
	for begun := false; ; begun = true {
		piece, err := r.in.ReadSlice('\n')
		if len(text)+len(piece) > r.rules.MaxLine+1 { // the line's end aside
			text, long = nil, true
		}
		if !long {
			text = append(text, piece...)
		}
		switch {
		case err == bufio.ErrBufferFull:
		case err == io.EOF && (begun || len(piece) > 0), err == nil:
			return text, long, nil
		default:
			return nil, false, err
		}
	}
}
