package calibrate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
)

// MaxLine is the most bytes of a line.
const MaxLine = 4 << 20

// Line is a prompt of a file: one of the three. Other keys of its object are passed over.
type Line struct {
	Text     string
	Messages json.RawMessage // of a chat
	Tokens   []engine.TokenID
	End      int64 // bytes of the file up to its end
}

// Lines reads JSON lines and calls take with each prompt and the place it is at, such as "prompts.jsonl, line 3". Empty
// lines are passed over. It fails at the first line that is no prompt, and where there are none.
func Lines(r io.Reader, name string, take func(place string, l Line) error) error {
	lines, any, end := bufio.NewReaderSize(r, MaxLine), false, int64(0)
	for number := 1; ; number++ {
		text, err := lines.ReadSlice('\n')
		place := fmt.Sprintf("%s, line %d", name, number)
		end += int64(len(text))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%s: it has more than %d bytes", place, MaxLine-1)
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("%s: %w", place, err)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			l, err := parseLine(text)
			if err != nil {
				return fmt.Errorf("%s: %w", place, err)
			}
			l.End = end
			if err := take(place, l); err != nil {
				return err
			}
			any = true
		}
		if err != nil {
			break
		}
	}
	if !any {
		return fmt.Errorf("%s has no prompts", name)
	}
	return nil
}

// parseLine reads a line's object.
func parseLine(text []byte) (Line, error) {
	var object struct {
		Prompt   *string          `json:"prompt"`
		Text     *string          `json:"text"`
		Messages json.RawMessage  `json:"messages"`
		Tokens   []engine.TokenID `json:"prompt_token_ids"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return Line{}, fmt.Errorf("it is not a JSON object with a prompt: %s", jsonerror.Explain(err, &object))
	}
	if string(object.Messages) == "null" {
		object.Messages = nil
	}
	given := 0
	l := Line{Messages: object.Messages, Tokens: object.Tokens}
	for _, s := range []*string{object.Prompt, object.Text} {
		if s != nil {
			l.Text = *s
			given++
		}
	}
	if l.Messages != nil {
		given++
	}
	if object.Tokens != nil {
		given++
	}
	if given != 1 {
		return Line{}, fmt.Errorf(`it has %d of "prompt", "text", "messages" and "prompt_token_ids", want one`, given)
	}
	if l.Text == "" && l.Messages == nil && len(l.Tokens) == 0 {
		return Line{}, errors.New("its prompt is empty")
	}
	return l, nil
}
