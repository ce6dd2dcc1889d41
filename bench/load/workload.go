package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// Request is one request of a trace.
type Request struct {
	At        time.Duration // when it is sent, from the start of the trace
	Model     string        // empty: the one that the client is told
	User      string        // routing and fairness key; may be empty
	Prompt    Prompt
	MaxTokens int              // >= 1
	Allowed   []engine.TokenID // the only tokens that may be generated; empty: any
}

// Prompt is given in one of three forms; the first that is not empty counts.
type Prompt struct {
	Text   string
	Tokens []engine.TokenID
	Shape  Shape
}

// Shape describes a synthetic prompt by its length and by which parts it has in common with
// others: prompts of equal Prefix share their first PrefixTokens tokens.
type Shape struct {
	Prefix       uint64 `json:"prefix"`        // names the shared part
	PrefixTokens int    `json:"prefix_tokens"` // its length
	Suffix       uint64 `json:"suffix"`        // names the part of its own
	SuffixTokens int    `json:"suffix_tokens"`
}

// Len is the length of the whole prompt in tokens.
func (s Shape) Len() int { return s.PrefixTokens + s.SuffixTokens }

// Len is the length of the prompt in tokens; of a text, the number of its words.
func (p Prompt) Len() int {
	switch {
	case p.Text != "":
		return len(strings.Fields(p.Text))
	case len(p.Tokens) > 0:
		return len(p.Tokens)
	}
	return p.Shape.Len()
}

// Vocabulary is the range [Low, High) that synthetic token ids are drawn from.
type Vocabulary struct{ Low, High engine.TokenID }

// DefaultVocabulary stays clear of the special tokens that most vocabularies begin with, and inside
// the smallest of them.
var DefaultVocabulary = Vocabulary{Low: 100, High: 1000}

// Streams of random numbers, so that a prefix and a suffix of the same number differ.
const (
	streamPrefix = 1 << 62
	streamSuffix = 2 << 62
)

// TokenIDs makes the prompt's token ids, each drawn evenly from the vocabulary.
func (s Shape) TokenIDs(v Vocabulary) []engine.TokenID {
	ids := make([]engine.TokenID, 0, s.Len())
	s.drawTokens(int(v.High-v.Low), func(i int) { ids = append(ids, v.Low+engine.TokenID(i)) })
	return ids
}

// Words makes the prompt as text of as many short English words, which most tokenizers turn into
// one token each.
func (s Shape) Words() string {
	var b strings.Builder
	s.drawTokens(len(words), func(i int) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(words[i])
	})
	return b.String()
}

func (s Shape) drawTokens(n int, each func(int)) {
	for _, part := range []struct {
		stream, name uint64
		tokens       int
	}{{streamPrefix, s.Prefix, s.PrefixTokens}, {streamSuffix, s.Suffix, s.SuffixTokens}} {
		rng := rand.New(rand.NewPCG(part.name, part.stream))
		for range part.tokens {
			each(rng.IntN(n))
		}
	}
}

// Lengths is a distribution of lengths in tokens: normal with the given mean and deviation, drawn
// again until inside [Min, Max]; with Deviation 0, even over [Min, Max].
type Lengths struct {
	Mean, Deviation float64
	Min, Max        int
}

func (l Lengths) drawLength(rng *rand.Rand) int {
	if l.Deviation == 0 {
		return l.Min + rng.IntN(l.Max-l.Min+1)
	}
	for {
		n := int(math.Round(l.Mean + l.Deviation*rng.NormFloat64()))
		if n >= l.Min && n <= l.Max {
			return n
		}
	}
}

// Spec describes a workload: users that each send the same profile with an item of their own.
type Spec struct {
	Name    string
	Users   int
	PerUser int     // requests of one user
	Profile Lengths // shared by all requests of one user
	Item    int     // tokens after the profile, different in each request
}

// PostRecommendation is the paper's first workload (table 5.1): 50 posts are scored for each of 20 users.
func PostRecommendation() Spec {
	return Spec{
		Name: "post-recommendation", Users: 20, PerUser: 50, Item: 150,
		Profile: Lengths{Mean: 14000, Deviation: 3000, Min: 11000, Max: 17000},
	}
}

// CreditVerification is the paper's second workload (table 5.1): one long credit history for each of
// 60 users. The paper gives the range alone, so lengths are even over it.
func CreditVerification() Spec {
	return Spec{Name: "credit-verification", Users: 60, PerUser: 1, Profile: Lengths{Min: 40000, Max: 60000}}
}

// ShortPrompts are 100 prompts of 150 tokens, the length of a post, that share nothing.
func ShortPrompts() Spec {
	return Spec{Name: "short-prompts", Users: 100, PerUser: 1, Profile: Lengths{Min: 150, Max: 150}}
}

// Named returns the workload of that name.
func Named(name string) (Spec, error) {
	for _, s := range []Spec{PostRecommendation(), CreditVerification(), ShortPrompts()} {
		if s.Name == name {
			return s, nil
		}
	}
	return Spec{}, fmt.Errorf("unknown workload %q: want post-recommendation, credit-verification or short-prompts", name)
}

// Scale multiplies all lengths by tokens and the number of users by users, keeping at least one of
// each; ratios between lengths stay.
func (s Spec) Scale(tokens, users float64) (Spec, error) {
	for _, f := range []struct {
		name  string
		value float64
	}{{"token", tokens}, {"user", users}} {
		if !(f.value > 0) || math.IsInf(f.value, 0) {
			return Spec{}, fmt.Errorf("invalid %s scale %v: want a positive number", f.name, f.value)
		}
	}
	scaled := func(n int) int {
		if n == 0 {
			return 0
		}
		return max(1, int(math.Round(float64(n)*tokens)))
	}
	s.Profile = Lengths{
		Mean: s.Profile.Mean * tokens, Deviation: s.Profile.Deviation * tokens,
		Min: scaled(s.Profile.Min), Max: scaled(s.Profile.Max),
	}
	s.Item = scaled(s.Item)
	s.Users = max(1, int(math.Round(float64(s.Users)*users)))
	return s, nil
}

// Generate makes the workload's requests in the order and at the times that a sets. The seed fixes
// the lengths, the prompts' content and the arrivals; arrivals of another rate keep the prompts.
func (s Spec) Generate(a Arrivals, seed uint64) ([]Request, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	sessions := make([][]Request, s.Users)
	for u := range sessions {
		prefix, tokens := rng.Uint64(), s.Profile.drawLength(rng)
		for range s.PerUser {
			sessions[u] = append(sessions[u], Request{
				User: fmt.Sprintf("user-%d", u), MaxTokens: 1,
				Prompt: Prompt{Shape: Shape{Prefix: prefix, PrefixTokens: tokens, Suffix: rng.Uint64(), SuffixTokens: s.Item}},
			})
		}
	}
	return a.scheduleSessions(sessions, rand.New(rand.NewPCG(seed, 2))), nil
}
