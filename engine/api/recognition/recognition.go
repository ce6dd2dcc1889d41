// Package recognition is the JSON in which users ask for the text of a picture: a plain form, and that of Mistral's API.
// It is apart because it is JSON, of which the work itself knows nothing.
package recognition

import (
	"encoding/json"
	"math"
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// pictureBody is the body of POST /v1/ocr.
type pictureBody struct {
	Model     string    `json:"model" is:"ModelName"`
	Image     *string   `json:"image"`
	Document  *document `json:"document" is:"PictureDocument"`
	User      string    `json:"user" bytes:"256"`
	RequestID string    `json:"request_id"`
}

// document is Mistral's.
type document struct {
	Type  string          `json:"type"`
	Image json.RawMessage `json:"image_url"`
}

// PictureBody describes what DecodePicture takes.
var PictureBody = fields.Body(reflect.TypeFor[pictureBody]())

// Shapes are what fields are that are decoded by hand, by the names that tags have for them.
func Shapes() map[string]fields.Schema {
	text := fields.Schema{"type": "string"}
	url := fields.AnyOf(text, fields.Schema{"type": "object", "properties": fields.Schema{"url": text}, "required": []string{"url"}})
	return map[string]fields.Schema{"PictureDocument": {
		"type": []string{"object", "null"}, "required": []string{"type", "image_url"},
		"properties": fields.Schema{"type": fields.Schema{"const": "image_url"}, "image_url": url},
	}}
}

// Picture is a request for the text of a picture.
type Picture struct {
	Model, User, RequestID string
	File                   []byte // a JPEG or PNG, not looked at
	Pages                  bool   // it is answered as Mistral does
}

// Asker is what the body says of the model that it asks, and of who asks.
func (p *Picture) Asker() api.Asker {
	return api.Asker{Model: p.Model, User: p.User, RequestID: p.RequestID}
}

// DecodePicture decodes and validates the body of POST /v1/ocr.
func DecodePicture(body []byte) (*Picture, *api.Error) {
	var in pictureBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	p := &Picture{Model: in.Model, User: in.User, RequestID: in.RequestID, Pages: in.Document != nil}
	var text, field string
	switch {
	case in.Image != nil && in.Document != nil:
		return nil, api.Invalid("document", "both image and document are given; give one of the two")
	case in.Image != nil:
		text, field = *in.Image, "image"
	case in.Document != nil:
		var err *api.Error
		if text, err = in.Document.url(); err != nil {
			return nil, err
		}
		field = "document.image_url"
	default:
		return nil, api.Invalid("image", "image is missing; give a picture as data:image/png;base64,...")
	}
	var err *api.Error
	p.File, err = api.DecodeFile(field, text, "picture", "data:image/png;base64,")
	return p, err
}

// url is where the document says that its picture is.
func (d *document) url() (string, *api.Error) {
	if d.Type != "image_url" {
		return "", api.Invalid("document.type", "document.type is %.40q; want image_url: this server reads pictures, JPEG and PNG", d.Type)
	}
	var text string
	if json.Unmarshal(d.Image, &text) == nil && text != "" {
		return text, nil
	}
	var object struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(d.Image, &object) == nil && object.URL != "" {
		return object.URL, nil
	}
	return "", api.Invalid("document.image_url", "document.image_url must be a text such as data:image/png;base64,..., or an object with it as url")
}

// Line is a line of text in a picture.
type Line struct {
	Text  string    `json:"text"`
	Score float64   `json:"score"`
	Box   [4][2]int `json:"box"` // corners from the upper left one on, in pixels
}

// Read is what was found in a picture.
type Read struct {
	ID    string `json:"id"`
	Model string `json:"model"`
	Text  string `json:"text"` // of the lines, in the order in which they are read
	Lines []Line `json:"lines"`

	Bytes int  `json:"-"` // of the picture
	Pages bool `json:"-"` // as Picture's
}

// pages is Mistral's answer.
type pages struct {
	Pages []markdown `json:"pages"`
	Model string     `json:"model"`
	Usage usage      `json:"usage_info"`
}

type markdown struct {
	Index      int      `json:"index"`
	Markdown   string   `json:"markdown"`
	Images     []string `json:"images"` // none are cut out
	Dimensions *string  `json:"dimensions"`
}

type usage struct {
	Pages int `json:"pages_processed"`
	Bytes int `json:"doc_size_bytes"`
}

// ReadAnswer describes answers.
var ReadAnswer = fields.AnyOf(fields.Answer(reflect.TypeFor[Read]()), fields.Answer(reflect.TypeFor[pages]()))

// AppendJSON implements api.Encoder.
func (r *Read) AppendJSON(b []byte, _ api.Spill) []byte {
	var value any = r
	if r.Pages {
		value = &pages{[]markdown{{Markdown: r.Text, Images: []string{}}}, r.Model, usage{1, r.Bytes}}
	} else {
		for i := range r.Lines {
			r.Lines[i].Score = math.Round(r.Lines[i].Score*1e5) / 1e5
		}
	}
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts and finite numbers alone
	}
	return append(b, body...)
}
