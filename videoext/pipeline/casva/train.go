package casva

import (
	"math"
	"math/rand/v2"
)

// Training are how a policy is trained. UsualTraining are those of tools/train casva.
type Training struct {
	Seed     uint64
	Updates  int // of the policy
	Streams  int // that are sent between two updates
	Length   int // of each, in intervals
	Epochs   int // that an update learns from them for
	Rate     float64
	Entropy  float64 // weight of the policy's entropy at the beginning; it goes to 0
	Discount float64 // of an interval's reward against the one before
	Trace    float64 // lambda of generalised advantage estimation (Schulman and others, 2016)
	Clip     float64 // of the ratio of likelihoods (Schulman and others, 2017)
	Lower    float64 // the second clip, in advantages, of what was bad (Ye and others, 2020)
}

// UsualTraining are the options that the policy of the package casva was trained by.
func UsualTraining() Training {
	return Training{Seed: 1, Updates: 1000, Streams: 24, Length: 32, Epochs: 4, Rate: 3e-3, Entropy: 0.03, Discount: 0.9, Trace: 0.95, Clip: 0.2, Lower: 3}
}

// moment is one interval of a stream that was sent.
type moment struct {
	state     []float64
	choice    []int
	chance    float64 // logarithm of how likely the choice was
	reward    float64
	value     float64 // that the critic expected
	advantage float64
	target    float64 // of the critic
}

// trainer learns a policy, and a critic that tells how much reward is to come.
type trainer struct {
	o              Training
	r              *rand.Rand
	policy         *Policy
	critic         *Network
	actors, values *adam
}

// TrainPolicy trains a policy on a table. Say is told of each update's mean reward.
func TrainPolicy(t *Table, o Training, say func(update int, reward float64)) *Policy {
	r := rand.New(rand.NewPCG(o.Seed, 1))
	p := NewPolicy(t.Ladders, r)
	l := &trainer{o: o, r: r, policy: p, critic: NewNetwork(p.In, p.Hidden, 1, r)}
	l.actors, l.values = newAdam(p.Params), newAdam(l.critic.Params)
	for update := range o.Updates {
		left := 1 - float64(update)/float64(o.Updates)
		moments, reward := l.collectMoments(t)
		normaliseAdvantages(moments)
		for range o.Epochs {
			r.Shuffle(len(moments), func(i, j int) { moments[i], moments[j] = moments[j], moments[i] })
			for part := 0; part < len(moments); part += batch {
				l.updateNetworks(moments[part:min(part+batch, len(moments))], left)
			}
		}
		say(update, reward)
	}
	return p
}

const (
	batch  = 128
	rarest = 1e-12 // chance of which the logarithm is taken
)

// collectMoments sends streams by the policy as it is, from anywhere in the table, over links that change.
func (l *trainer) collectMoments(t *Table) (all []moment, reward float64) {
	for range l.o.Streams {
		s := BeginStream(t, l.r.IntN(len(t.Intervals)), t.anyShare(l.r), newWanderingRate(t, l.r))
		var moments []moment
		for range l.o.Length {
			m := l.drawChoice(s.State())
			m.reward, _ = s.Send(l.policy, m.choice)
			reward += m.reward
			moments = append(moments, m)
		}
		last, _ := l.critic.Forward(s.State())
		l.estimateAdvantages(moments, last[0])
		all = append(all, moments...)
	}
	return all, reward / float64(len(all))
}

// drawChoice draws a choice.
func (l *trainer) drawChoice(state []float64) moment {
	out, _ := l.policy.Forward(state)
	value, _ := l.critic.Forward(state)
	m := moment{state: state, value: value[0]}
	for _, chances := range l.policy.Chances(out) {
		x, place := l.r.Float64(), 0
		for ; place < len(chances)-1 && x >= chances[place]; place++ {
			x -= chances[place]
		}
		m.choice, m.chance = append(m.choice, place), m.chance+math.Log(chances[place])
	}
	return m
}

// estimateAdvantages tells advantages from the end on. Value is what is to come after the last moment.
func (l *trainer) estimateAdvantages(moments []moment, value float64) {
	advantage := 0.0
	for i := len(moments) - 1; i >= 0; i-- {
		m := &moments[i]
		advantage = m.reward + l.o.Discount*value - m.value + l.o.Discount*l.o.Trace*advantage
		m.advantage, m.target, value = advantage, advantage+m.value, m.value
	}
}

// normaliseAdvantages brings advantages to a mean of 0 and a deviation of 1.
func normaliseAdvantages(moments []moment) {
	sum, squares, n := 0.0, 0.0, float64(len(moments))
	for i := range moments {
		sum, squares = sum+moments[i].advantage, squares+moments[i].advantage*moments[i].advantage
	}
	mean := sum / n
	deviation := math.Sqrt(max(squares/n-mean*mean, 0)) + 1e-6
	for i := range moments {
		moments[i].advantage = (moments[i].advantage - mean) / deviation
	}
}

// updateNetworks makes one step of both networks. Left is the part of the training that is to come.
func (l *trainer) updateNetworks(moments []moment, left float64) {
	policy, critic := make([]float64, len(l.policy.Params)), make([]float64, len(l.critic.Params))
	for i := range moments {
		m := &moments[i]
		l.addLossGradient(m, left*l.o.Entropy, 1/float64(len(moments)), policy)
		value, units := l.critic.Forward(m.state)
		l.critic.Backward(m.state, units, []float64{(value[0] - m.target) / float64(len(moments))}, critic)
	}
	l.actors.updateParams(l.policy.Params, policy, left*l.o.Rate)
	l.values.updateParams(l.critic.Params, critic, left*l.o.Rate)
}

// addLossGradient adds to gradient that of a moment's loss, times a weight.
func (l *trainer) addLossGradient(m *moment, entropy, weight float64, gradient []float64) {
	out, units := l.policy.Forward(m.state)
	chances := l.policy.Chances(out)
	ratio, moves := l.probabilityRatio(m, chances)
	slopes := make([]float64, 0, len(out))
	for knob, c := range chances {
		h := 0.0
		for _, v := range c {
			h -= v * math.Log(max(v, rarest))
		}
		for place, v := range c {
			towards := -v
			if place == m.choice[knob] {
				towards++
			}
			s := entropy * v * (math.Log(max(v, rarest)) + h)
			if moves {
				s -= m.advantage * ratio * towards
			}
			slopes = append(slopes, weight*s)
		}
	}
	l.policy.Backward(m.state, units, slopes, gradient)
}

// probabilityRatio is how much likelier a choice is than when it was made, and whether that still counts: not once it is clipped.
func (l *trainer) probabilityRatio(m *moment, chances [][]float64) (ratio float64, moves bool) {
	likely := 0.0
	for knob, place := range m.choice {
		likely += math.Log(max(chances[knob][place], rarest))
	}
	ratio = math.Exp(likely - m.chance)
	if m.advantage >= 0 {
		return ratio, ratio <= 1+l.o.Clip
	}
	return ratio, ratio >= 1-l.o.Clip && ratio <= l.o.Lower
}

// adam is the optimiser (Kingma and Ba, 2015).
type adam struct {
	first, second []float64
	steps         int
}

func newAdam(params []float64) *adam {
	return &adam{first: make([]float64, len(params)), second: make([]float64, len(params))}
}

func (a *adam) updateParams(params, gradient []float64, rate float64) {
	a.steps++
	const b1, b2 = 0.9, 0.999
	c1, c2 := 1-math.Pow(b1, float64(a.steps)), 1-math.Pow(b2, float64(a.steps))
	for i, g := range gradient {
		a.first[i] += (1 - b1) * (g - a.first[i])
		a.second[i] += (1 - b2) * (g*g - a.second[i])
		params[i] -= rate * a.first[i] / c1 / (math.Sqrt(a.second[i]/c2) + 1e-8)
	}
}
