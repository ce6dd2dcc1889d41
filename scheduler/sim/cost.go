package sim

import (
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Cost is what a pass takes on one executor, in seconds: the paper's linear model in cache-miss
// tokens (section 5.3.3), with the quadratic term of attention and the price of running a prompt in
// chunks.
type Cost struct {
	Base  float64 // of every pass: reading the weights, launches, the engine's own work
	Token float64 // of each token that is not cached
	Pair  float64 // of each pair of positions that attend: (n^2 - cached^2) / 2 of them
	Chunk int     // tokens computed at a time; 0: any number
	Extra float64 // of each chunk after a pass's first
}

// Item is one prompt of a pass.
type Item struct{ Tokens, Cached int }

// Pass is the time of a pass over the items, at least a nanosecond.
func (c Cost) Pass(items []Item) time.Duration {
	return max(1, time.Duration(c.seconds(items)*1e9))
}

func (c Cost) seconds(items []Item) float64 {
	var tokens, pairs float64
	for _, i := range items {
		n, cached := float64(i.Tokens), float64(i.Cached)
		tokens += n - cached
		pairs += (n*n - cached*cached) / 2
	}
	seconds := c.Base + c.Token*tokens + c.Pair*pairs
	if c.Chunk > 0 {
		seconds += c.Extra * (math.Ceil(tokens/float64(c.Chunk)) - 1)
	}
	return seconds
}

// wireCost is the cost as an executor tells it.
func (c Cost) wireCost() wire.Cost {
	return wire.Cost{Base: time.Duration(c.Base * 1e9), Unit: time.Duration(c.Token * 1e9), Pair: c.Pair}
}
