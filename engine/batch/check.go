package batch

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Totals are what a fit file has.
type Totals struct {
	Lines    int
	Answered int // of these, before
	Failed   int // of these, with another status than 200
}

// maxErrors bounds how many lines that are wrong are told of.
const maxErrors = 100

// Check reads a whole file. It returns what is wrong with it, of its first lines that are; or else how many lines there are
// and how many of them done answers. An error of another kind is that of reading it, or of answers to another file.
// MaxLines bounds the lines.
func Check(in io.Reader, rules Rules, maxLines int, done Answered) (t Totals, wrong []LineError, err error) {
	seen := map[Key]int{} // the number of its line
	note := func(e *LineError) {
		if len(wrong) < maxErrors {
			wrong = append(wrong, *e)
		}
	}
	for r := NewReader(in, rules); ; {
		line, err := r.Next()
		var bad *LineError
		switch {
		case err == io.EOF:
			return t, wrong, checkWholeFile(&t, done, &wrong)
		case errors.As(err, &bad):
			note(bad)
			continue
		case err != nil:
			return t, nil, err
		}
		key := line.Key()
		if before, twice := seen[key]; twice {
			note(&LineError{line.Number, "duplicate_custom_id", "custom_id", fmt.Sprintf("custom_id %.100q is also that of line %d: give each line its own", line.CustomID, before)})
			continue
		}
		seen[key] = line.Number
		if t.Lines++; t.Lines > maxLines {
			return t, []LineError{{line.Number, "too_many_requests", "", fmt.Sprintf("the file has more than %d requests, the limit of a batch: split it", maxLines)}}, nil
		}
		if answer, answered := done[key]; answered {
			if answer.of != line.ID {
				return t, nil, fmt.Errorf("line %d was answered before with another text", line.Number)
			}
			t.addOutcome(answer)
		}
	}
}

func (t *Totals) addOutcome(a Outcome) {
	t.Answered++
	if !a.OK {
		t.Failed++
	}
}

// checkWholeFile looks at a file at its end.
func checkWholeFile(t *Totals, done Answered, wrong *[]LineError) error {
	if t.Lines == 0 && len(*wrong) == 0 {
		*wrong = []LineError{{0, "empty_file", "", "the file has no lines"}}
	}
	if len(*wrong) == 0 && t.Answered < len(done) {
		return fmt.Errorf("%d of %d earlier answers belong to lines that the file does not have", len(done)-t.Answered, len(done))
	}
	return nil
}

// byteCountText is a number of bytes in words.
func byteCountText(bytes int) string { return strconv.Itoa(bytes) + " bytes" }
