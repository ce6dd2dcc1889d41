package tokenizer

import (
	"fmt"
	"time"
)

// budget bounds what one call of the native library may take, so that no checkpoint and no text can
// take all. It is for the library to keep.
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

func templateBudget(contextBytes int) budget {
	return budget{32<<20 + 32*contextBytes, templateTime + time.Duration(contextBytes)*time.Microsecond}
}

// templateTime is what a template may take with messages of no length; the tests lower it.
var templateTime = 5 * time.Second

func grammarBudget(textBytes int) budget {
	return budget{128<<20 + 256*textBytes, 5 * time.Second}
}

// quickTime is what a form takes that is compiled at once, before those that take longer.
const quickTime = 20 * time.Millisecond

// late is the library's error when the time is over.
func (b budget) late() string { return fmt.Sprintf("it takes more than %g s", b.time.Seconds()) }

// stepBudget is what one step of a compiled form may add.
var stepBudget = budget{64 << 20, 500 * time.Millisecond}
