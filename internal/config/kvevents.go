package config

import (
	"fmt"
	"strconv"
	"strings"
)

// KVEvents says whether and where the changes of the prefix caches are published. The zero value is
// off.
type KVEvents struct {
	Enabled        bool
	Endpoint       string // empty: LoopbackEvents, listened on
	ReplayEndpoint string // empty: nothing is replayed
	Topic          string
	BufferSteps    int // batches kept for replay
	HWM            int // batches kept for a slow subscriber
}

// LoopbackEvents is where events are published when no endpoint is given. vLLM's default is this port on every
// address; events hold prompts, so that is for the user to ask for.
const LoopbackEvents = "tcp://127.0.0.1:5557"

// defaultKVEvents are vLLM's defaults, the endpoint excepted.
func defaultKVEvents() KVEvents { return KVEvents{BufferSteps: 10_000, HWM: 100_000} }

// keys lists vLLM's keys, and what each sets.
func (k *KVEvents) keys() []kvEventsKey {
	// Every batch goes to its socket at once, so there is no queue to bound, and there is one kind of
	// publisher: these two keys are only checked.
	publisher, queue := "zmq", 1
	return []kvEventsKey{
		{"enable_kv_cache_events", &k.Enabled},
		{"publisher", &publisher},
		{"endpoint", &k.Endpoint},
		{"replay_endpoint", &k.ReplayEndpoint},
		{"topic", &k.Topic},
		{"buffer_steps", &k.BufferSteps},
		{"hwm", &k.HWM},
		{"max_queue_size", &queue},
	}
}

type kvEventsKey struct {
	name  string
	field any
}

// parseKVEvents reads a JSON object, which is YAML as well.
func parseKVEvents(text string) (KVEvents, error) {
	if text == "" {
		return KVEvents{}, nil
	}
	tree, err := parse([]byte(text))
	if err != nil || len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return KVEvents{}, fmt.Errorf(`%q is no JSON object such as {"enable_kv_cache_events":true}`, text)
	}
	pairs, err := mapping(tree.Docs[0].Body)
	if err != nil {
		return KVEvents{}, fmt.Errorf(`%q is no JSON object such as {"enable_kv_cache_events":true}`, text)
	}
	k := defaultKVEvents()
	keys := k.keys()
	for _, pair := range pairs {
		name := pair.Key.GetToken().Value
		value, err := scalar(pair.Value)
		if err != nil {
			return KVEvents{}, fmt.Errorf("%s: %w", name, err)
		}
		if err := setKVEvents(keys, name, value); err != nil {
			return KVEvents{}, err
		}
	}
	if !k.Enabled {
		return KVEvents{}, nil
	}
	return k, nil
}

// setKVEvents sets one key, and checks it.
func setKVEvents(keys []kvEventsKey, name, value string) error {
	var known []string
	for _, key := range keys {
		known = append(known, key.name)
		if key.name != name {
			continue
		}
		if err := set(key.field, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		switch n, isInt := key.field.(*int); {
		case isInt && *n < 1:
			return fmt.Errorf("%s is %d, want at least 1", name, *n)
		case name == "publisher" && value != "zmq":
			return fmt.Errorf("%s is %q, want zmq; to publish nothing leave enable_kv_cache_events out", name, value)
		}
		return nil
	}
	return fmt.Errorf("unknown key %q, want one of %s", name, strings.Join(known, ", "))
}

// String is the inverse of parseKVEvents.
func (k KVEvents) String() string {
	if !k.Enabled {
		return ""
	}
	text := ""
	for _, key := range k.keys() {
		value := show(key.field)
		if _, isText := key.field.(*string); isText {
			value = strconv.Quote(value)
		}
		text += fmt.Sprintf(",%q:%s", key.name, value)
	}
	return "{" + text[1:] + "}"
}
