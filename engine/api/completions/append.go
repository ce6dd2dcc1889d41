package completions

import (
	"math"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/api"
)

// The answers of the serving path are encoded by appending to a caller's buffer, without
// reflection: a one-token answer is 300 bytes made at several thousand a second, an echo with
// logprobs many megabytes.

// AppendJSON appends c as JSON, in pieces if there is a spill.
func (c *Completion) AppendJSON(b []byte, spill api.Spill) []byte {
	b = appendHead(b, c.ID, c.Object, c.Created, c.Model)
	b = c.Choices.Append(b, spill, func(b []byte, choice CompletionChoice) []byte { return choice.appendJSON(b, spill) })
	b = c.Metrics.appendJSON(c.Usage.Append(b))
	return append(b, '}')
}

// AppendJSON appends c as JSON, in pieces if there is a spill.
func (c *Chat) AppendJSON(b []byte, spill api.Spill) []byte {
	b = appendHead(b, c.ID, c.Object, c.Created, c.Model)
	b = c.Choices.Append(b, spill, func(b []byte, choice ChatChoice) []byte { return choice.appendJSON(b, spill) })
	b = c.Metrics.appendJSON(c.Usage.Append(b))
	b = appendIDs(b, `,"prompt_token_ids":`, c.PromptTokenIDs, spill)
	b = appendPromptLogprobs(b, c.PromptLogprobs, spill)
	return append(b, '}')
}

// AppendJSON appends t as JSON, in pieces if there is a spill.
func (t *Tokenized) AppendJSON(b []byte, spill api.Spill) []byte {
	b = strconv.AppendInt(append(b, `{"count":`...), int64(t.Count), 10)
	b = strconv.AppendInt(append(b, `,"max_model_len":`...), int64(t.MaxModelLen), 10)
	b = appendNumbers(append(b, `,"tokens":`...), t.Tokens, spill)
	b = append(b, `,"token_strs":`...)
	if t.TokenStrs.Len() == 0 {
		return append(b, "null}"...)
	}
	return append(t.TokenStrs.Append(b, spill, api.AppendString), '}')
}

func appendHead(b []byte, id, object string, created int64, model string) []byte {
	b = api.AppendString(append(b, `{"id":`...), id)
	b = api.AppendString(append(b, `,"object":`...), object)
	b = strconv.AppendInt(append(b, `,"created":`...), created, 10)
	b = api.AppendString(append(b, `,"model":`...), model)
	return append(b, `,"choices":`...)
}

func (c *CompletionChoice) appendJSON(b []byte, spill api.Spill) []byte {
	b = strconv.AppendInt(append(b, `{"index":`...), int64(c.Index), 10)
	b = api.AppendString(append(b, `,"text":`...), c.Text)
	b = c.Logprobs.appendJSON(append(b, `,"logprobs":`...), spill)
	b = appendFinish(b, c.FinishReason, c.StopReason)
	b = appendIDs(b, `,"token_ids":`, c.TokenIDs, spill)
	b = appendIDs(b, `,"prompt_token_ids":`, c.PromptTokenIDs, spill)
	b = appendPromptLogprobs(b, c.PromptLogprobs, spill)
	return append(b, '}')
}

func (c *ChatChoice) appendJSON(b []byte, spill api.Spill) []byte {
	b = strconv.AppendInt(append(b, `{"index":`...), int64(c.Index), 10)
	if c.Message != nil {
		b = c.Message.appendJSON(append(b, `,"message":`...), false)
	}
	if c.Delta != nil {
		b = c.Delta.appendJSON(append(b, `,"delta":`...), true)
	}
	b = c.Logprobs.appendJSON(append(b, `,"logprobs":`...), spill)
	b = appendFinish(b, c.FinishReason, c.StopReason)
	b = appendIDs(b, `,"token_ids":`, c.TokenIDs, spill)
	return append(b, '}')
}

func (m *ChatMessage) appendJSON(b []byte, event bool) []byte {
	b = append(b, '{')
	if m.Role != "" {
		b = api.AppendString(append(b, `"role":`...), m.Role)
		b = append(b, ',')
	}
	if m.Calls {
		b = append(b, `"content":null`...)
	} else {
		b = api.AppendString(append(b, `"content":`...), m.Content)
	}
	for i := range m.ToolCalls {
		b = append(b, [2]string{`,"tool_calls":[`, `,`}[min(i, 1)]...)
		b = m.ToolCalls[i].appendJSON(b, event)
	}
	if len(m.ToolCalls) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendFinish(b []byte, finish string, stop StopReason) []byte {
	b = append(b, `,"finish_reason":`...)
	if finish == "" {
		b = append(b, "null"...)
	} else {
		b = api.AppendString(b, finish)
	}
	return stop.appendJSON(append(b, `,"stop_reason":`...))
}

func (r StopReason) appendJSON(b []byte) []byte {
	switch {
	case r.Text != "":
		return api.AppendString(b, r.Text)
	case r.Token != nil:
		return strconv.AppendUint(b, uint64(*r.Token), 10)
	}
	return append(b, "null"...)
}

func (l *CompletionLogprobs) appendJSON(b []byte, spill api.Spill) []byte {
	if l == nil {
		return append(b, "null"...)
	}
	b = api.AppendList(append(b, `{"text_offset":`...), l.TextOffset, spill, func(b []byte, v int) []byte {
		return strconv.AppendInt(b, int64(v), 10)
	})
	b = api.AppendList(append(b, `,"token_logprobs":`...), l.TokenLogprobs, spill, func(b []byte, v *float32) []byte {
		if v == nil {
			return append(b, "null"...)
		}
		return appendLogprob(b, *v)
	})
	b = api.AppendList(append(b, `,"tokens":`...), l.Tokens, spill, api.AppendString)
	b = l.TopLogprobs.Append(append(b, `,"top_logprobs":`...), spill, func(b []byte, d TokenDict) []byte { return d.appendJSON(b) })
	return append(b, '}')
}

func (d TokenDict) appendJSON(b []byte) []byte {
	if d == nil {
		return append(b, "null"...)
	}
	b = append(b, '{')
	for i, entry := range d {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(api.AppendString(b, entry.Token), ':')
		b = appendLogprob(b, entry.Logprob)
	}
	return append(b, '}')
}

func (l *ChatLogprobs) appendJSON(b []byte, spill api.Spill) []byte {
	if l == nil {
		return append(b, "null"...)
	}
	b = l.Content.Append(append(b, `{"content":`...), spill, func(b []byte, t ChatToken) []byte {
		b = t.TokenLogprob.appendFields(append(b, '{'))
		b = api.AppendList(append(b, `,"top_logprobs":`...), t.Top, nil, func(b []byte, t TokenLogprob) []byte {
			return append(t.appendFields(append(b, '{')), '}')
		})
		return append(b, '}')
	})
	return append(b, '}')
}

func (t *TokenLogprob) appendFields(b []byte) []byte {
	b = api.AppendString(append(b, `"token":`...), t.Token)
	b = appendLogprob(append(b, `,"logprob":`...), t.Logprob)
	b = append(b, `,"bytes":`...)
	if t.Bytes == nil {
		return append(b, "null"...)
	}
	return api.AppendList(b, t.Bytes, nil, func(b []byte, v int) []byte { return strconv.AppendInt(b, int64(v), 10) })
}

func appendPromptLogprobs(b []byte, positions api.List[PromptTokens], spill api.Spill) []byte {
	if positions.Len() == 0 {
		return b
	}
	return positions.Append(append(b, `,"prompt_logprobs":`...), spill, func(b []byte, tokens PromptTokens) []byte {
		if tokens == nil {
			return append(b, "null"...)
		}
		b = append(b, '{')
		for i, t := range tokens {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendUint(append(b, '"'), uint64(t.ID), 10)
			b = appendLogprob(append(b, `":{"logprob":`...), t.Logprob)
			b = strconv.AppendInt(append(b, `,"rank":`...), int64(t.Rank), 10)
			b = api.AppendString(append(b, `,"decoded_token":`...), t.Decoded)
			b = append(b, '}')
		}
		return append(b, '}')
	})
}

func appendIDs(b []byte, name string, ids []uint32, spill api.Spill) []byte {
	if len(ids) == 0 {
		return b
	}
	return appendNumbers(append(b, name...), ids, spill)
}

func appendNumbers(b []byte, ids []uint32, spill api.Spill) []byte {
	return api.AppendList(b, ids, spill, func(b []byte, id uint32) []byte { return strconv.AppendUint(b, uint64(id), 10) })
}

// appendLogprob writes the shortest digits that read back as the same float32, so equal logprobs
// stay equal for a client that compares them.
func appendLogprob(b []byte, v float32) []byte {
	if !(v > api.Floor) { // NaN and -Inf too
		return append(b, "-9999.0"...)
	}
	if v > math.MaxFloat32 {
		v = math.MaxFloat32
	}
	return strconv.AppendFloat(b, float64(v), 'g', -1, 32)
}

// appendJSON appends the times of a request; of nil nothing.
func (m *Metrics) appendJSON(b []byte) []byte {
	if m == nil {
		return b
	}
	for _, f := range []struct {
		key   string
		value float64
	}{
		{`,"metrics":{"time_to_first_token_ms":`, m.FirstToken}, {`,"queue_time_ms":`, m.Queue}, {`,"generation_time_ms":`, m.Generation},
		{`,"mean_itl_ms":`, m.BetweenTokens}, {`,"tokens_per_second":`, m.TokensPerSecond},
	} {
		b = strconv.AppendFloat(append(b, f.key...), f.value, 'f', 3, 64)
	}
	return append(b, '}')
}
