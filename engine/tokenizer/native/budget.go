// Package native is the Go side of the static library of Rust crates that is built here: tokenizers, chat templates, and
// grammars that texts are held to. No call takes more memory or processor time than its budget. Without cgo all of them fail.
package native

import (
	"fmt"
	"time"
)

// budget bounds what one call of the library may take, so that no checkpoint and no text can take all. It is for
// the library to keep.
type budget struct {
	bytes int           // of memory, at its highest
	time  time.Duration // of processor time
}

// Each allows several times what the checkpoints and texts of the tests take at most, and with the
// length of what was given.

func openBudget(fileBytes int) budget {
	return budget{256<<20 + 64*fileBytes, time.Minute}
}

func encodeBudget(textBytes int) budget {
	return budget{64<<20 + 1024*textBytes, 10*time.Second + time.Duration(textBytes)*20*time.Microsecond}
}

func decodeBudget(tokens int) budget {
	return budget{64<<20 + 1024*tokens, 10*time.Second + time.Duration(tokens)*20*time.Microsecond}
}

func templateBudget(within time.Duration, contextBytes int) budget {
	return budget{32<<20 + 32*contextBytes, within + time.Duration(contextBytes)*time.Microsecond}
}

func grammarBudget(within time.Duration, textBytes int) budget {
	return budget{128<<20 + 256*textBytes, within}
}

// stepBudget is what one step of a compiled form may add.
var stepBudget = budget{64 << 20, 500 * time.Millisecond}

// IsLate says that a call has failed because it was not done within so much processor time.
func IsLate(err error, within time.Duration) bool {
	return err != nil && err.Error() == fmt.Sprintf("it takes more than %g s", within.Seconds())
}
