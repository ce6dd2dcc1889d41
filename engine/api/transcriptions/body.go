package transcriptions

import (
	"cmp"
	"encoding/json"
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// soundBody is a body of JSON, as lines of batch files have: it is answered in JSON.
type soundBody struct {
	Model         string          `json:"model" is:"ModelName"`
	File          string          `json:"file" required:"true"`
	Format        string          `json:"response_format" enum:"json,verbose_json"`
	Granularities []string        `json:"timestamp_granularities" items:"2"`
	Language      string          `json:"language" bytes:"64"`
	Prompt        string          `json:"prompt"`
	Temperature   *float64        `json:"temperature" min:"0" max:"1"`
	Stream        json.RawMessage `json:"stream" only:"false"`
	RequestID     string          `json:"request_id"`
}

// Body describes what DecodeBody takes.
var Body = fields.Body(reflect.TypeFor[soundBody]())

// DecodeBody decodes and validates a body of JSON.
func DecodeBody(body []byte) (*Request, *api.Error) {
	var in soundBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	f := form{Request: Request{Model: in.Model, Format: cmp.Or(in.Format, formatJSON), Language: in.Language, RequestID: in.RequestID}}
	for _, g := range in.Granularities {
		if err := f.setField("timestamp_granularities", g); err != nil {
			return nil, err
		}
	}
	var err *api.Error
	if f.File, err = api.DecodeFile("file", in.File, "sound", "data:audio/wav;base64,"); err != nil {
		return nil, err
	}
	return &f.Request, f.checkWords()
}

// Asker is what the body says of the model that it asks, and of who asks.
func (r *Request) Asker() api.Asker { return api.Asker{Model: r.Model, RequestID: r.RequestID} }
