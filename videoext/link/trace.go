// Package link is a network link in virtual time: a token bucket whose rate follows a trace, and a time to travel. Its Timeline is what
// happens in that time, in order; its Shaper makes real connections as slow as such a link.
package link

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Never is when something arrives that does not.
const Never = time.Duration(math.MaxInt64)

// Trace is a rate that changes in steps.
type Trace struct {
	steps []step
	// period is after how long the trace begins anew; 0: the last step goes on.
	period time.Duration
}

// step is a rate from a time on, until the next one. The first is at 0.
type step struct {
	at   time.Duration
	rate float64 // bytes a second
}

// Constant is one rate for ever, in bytes a second.
func Constant(rate float64) Trace { return Trace{steps: []step{{0, rate}}} }

// Unlimited is the highest rate there is.
func Unlimited() Trace { return Constant(maxRate) }

// maxRate is the highest rate, in bytes a second.
const maxRate = 1e12

// normalSteps is after how many seconds a trace of Normal repeats.
const normalSteps = 60

// Normal is a rate that is drawn anew each second, by a normal distribution of a mean in bytes a second and a deviation that is a part of it; what is
// below 0 is 0. So did the published code of DDS draw its links (github.com/KuntaiDu/dds).
func Normal(mean, deviation float64, seed uint64) Trace {
	r := rand.New(rand.NewPCG(seed, 0))
	t := Trace{period: normalSteps * time.Second}
	for n := range time.Duration(normalSteps) {
		t.steps = append(t.steps, step{n * time.Second, max(0, mean*(1+deviation*r.NormFloat64()))})
	}
	return t
}

// Deviation is that of a text such as 2Mbit~0.3 or 2Mbit~0.3#7; false of others.
func Deviation(text string) (v float64, ok bool) {
	if _, text, ok = strings.Cut(text, "~"); !ok {
		return 0, false
	}
	text, _, _ = strings.Cut(text, "#")
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && v >= 0 && v <= 10
}

// parseNormal reads a rate, its deviation and, if there is one, a seed.
func parseNormal(text string) (Trace, error) {
	mean, rest, _ := strings.Cut(text, "~")
	_, number, seeded := strings.Cut(rest, "#")
	rate, err := parseRate(mean)
	deviation, ok := Deviation(text)
	seed := uint64(1)
	if seeded && err == nil {
		seed, err = strconv.ParseUint(number, 10, 64)
	}
	switch {
	case err != nil:
		return Trace{}, fmt.Errorf("link %q: %w", text, err)
	case !ok:
		return Trace{}, fmt.Errorf("link %q: %q is no deviation of 0 to 10, as in 2Mbit~0.3 or 2Mbit~0.3#7", text, rest)
	}
	return Normal(rate, deviation, seed), nil
}

// Parse reads a rate, such as 2Mbit or 500kbit, of bits a second; one that changes each second, such as 2Mbit~0.3, by Normal with that deviation, and the
// seed that may be behind it (2Mbit~0.3#7; 1); or steps, as 0s:2Mbit,10s:0,15s:2Mbit, the first at 0.
func Parse(text string) (Trace, error) {
	if rate, err := parseRate(text); err == nil {
		return Constant(rate), nil
	}
	if strings.Contains(text, "~") {
		return parseNormal(text)
	}
	var t Trace
	for part := range strings.SplitSeq(text, ",") {
		at, rate, ok := strings.Cut(part, ":")
		if !ok {
			return Trace{}, fmt.Errorf("link %q: %q is neither a rate, such as 2Mbit, nor one from a time on, such as 10s:2Mbit", text, part)
		}
		d, err := time.ParseDuration(at)
		if err != nil {
			return Trace{}, fmt.Errorf("link %q: %w", text, err)
		}
		r, err := parseRate(rate)
		if err != nil {
			return Trace{}, fmt.Errorf("link %q: %w", text, err)
		}
		t.steps = append(t.steps, step{d, r})
	}
	return t, t.check()
}

// Read reads a trace of lines with a time in seconds and a rate in kbit a second; lines that begin with # are left out. The trace repeats:
// its last rate holds for as long as the one before it did.
func Read(r io.Reader) (Trace, error) {
	var t Trace
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
		if len(fields) != 2 {
			return Trace{}, fmt.Errorf("line %d of a link's trace is %q; it is to be seconds and kbit a second", n, text)
		}
		at, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || !(at >= 0 && at < 1e6) {
			return Trace{}, fmt.Errorf("line %d of a link's trace: time %q is not 0 to 1000000 seconds", n, fields[0])
		}
		rate, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return Trace{}, fmt.Errorf("line %d of a link's trace: %w", n, err)
		}
		t.steps = append(t.steps, step{time.Duration(at * float64(time.Second)), rate * 1000 / 8})
	}
	if err := lines.Err(); err != nil {
		return Trace{}, err
	}
	if n := len(t.steps); n > 1 {
		last := t.steps[n-1].at
		t.period = last + (last - t.steps[n-2].at)
	}
	return t, t.check()
}

func (t *Trace) check() error {
	for i, s := range t.steps {
		switch {
		case i == 0 && s.at != 0:
			return fmt.Errorf("a link's trace begins at %v; say what it is from 0 on", s.at)
		case i > 0 && s.at <= t.steps[i-1].at:
			return fmt.Errorf("a link's trace has %v after %v", s.at, t.steps[i-1].at)
		case !(s.rate >= 0 && s.rate <= maxRate):
			return fmt.Errorf("a link's trace has a rate of %v bytes a second at %v; 0 to 1e12 are right", s.rate, s.at)
		}
	}
	if len(t.steps) == 0 {
		return fmt.Errorf("a link's trace has no rate")
	}
	return nil
}

// parseRate reads bits a second, and gives bytes.
func parseRate(text string) (float64, error) {
	number, unit := text, 1.0
	for _, u := range []struct {
		name string
		bits float64
	}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = n, u.bits
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0 && v*unit <= 8*maxRate) || unit == 1 && v != 0 && number == text {
		return 0, fmt.Errorf("%q is no rate; such are 2Mbit and 500kbit", text)
	}
	return v * unit / 8, nil
}

// rateAt is the rate at a time, and when that ends.
func (t *Trace) rateAt(now time.Duration) (rate float64, until time.Duration) {
	begin := time.Duration(0)
	if t.period > 0 {
		begin = now / t.period * t.period
	}
	until = Never
	if t.period > 0 {
		until = begin + t.period
	}
	for i := len(t.steps) - 1; i >= 0; i-- {
		if s := t.steps[i]; begin+s.at <= now {
			return s.rate, until
		} else {
			until = begin + s.at
		}
	}
	return t.steps[0].rate, until
}

// Bytes is how much goes through between two times.
func (t *Trace) Bytes(from, to time.Duration) (sum float64) {
	for from < to {
		rate, until := t.rateAt(from)
		until = min(until, to)
		sum += rate * (until - from).Seconds()
		from = until
	}
	return sum
}

// When is when so many bytes are through that begin at a time.
func (t *Trace) When(from time.Duration, bytes float64) time.Duration {
	idle := time.Duration(0) // since something went through
	for bytes > 0 {
		rate, until := t.rateAt(from)
		if rate > 0 {
			took := bytes / rate
			if until == Never || took <= (until-from).Seconds() {
				if took > (Never-from).Seconds()/2 {
					return Never
				}
				return from + time.Duration(took*float64(time.Second))
			}
			bytes -= rate * (until - from).Seconds()
			idle = 0
		} else if idle += until - from; until == Never || t.period > 0 && idle > 2*t.period {
			return Never
		}
		from = until
	}
	return from
}
