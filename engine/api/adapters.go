package api

import "encoding/json"

// Adapters are the fields in which bodies of other servers name adapters of weights, such as LoRA's. This server applies none, and
// an answer of the weights alone would be another one.
type Adapters struct {
	LoRARequest   json.RawMessage `json:"lora_request" only:"[]|{}|\"\"" refused:"names an adapter, and this server applies none: merge it into the weights and serve these as a model"`
	LoRAPath      json.RawMessage `json:"lora_path" only:"[]|{}|\"\"" refused:"names an adapter, and this server applies none: merge it into the weights and serve these as a model"`
	LoRAName      json.RawMessage `json:"lora_name" only:"[]|{}|\"\"" refused:"names an adapter, and this server applies none: merge it into the weights and serve these as a model"`
	LoRAAdapters  json.RawMessage `json:"lora_adapters" only:"[]|{}|\"\"" refused:"names an adapter, and this server applies none: merge it into the weights and serve these as a model"`
	LoRA          json.RawMessage `json:"lora" only:"[]|{}|\"\"" refused:"names an adapter, and this server applies none: merge it into the weights and serve these as a model"`
	AdapterID     json.RawMessage `json:"adapter_id" only:"[]|{}|\"\"" refused:"names an adapter, and this server applies none: merge it into the weights and serve these as a model"`
	AdapterSource json.RawMessage `json:"adapter_source" only:"[]|{}|\"\"" refused:"names an adapter, and this server applies none: merge it into the weights and serve these as a model"`
	AdapterList   json.RawMessage `json:"adapters" only:"[]|{}|\"\"" refused:"names an adapter, and this server applies none: merge it into the weights and serve these as a model"`
}
