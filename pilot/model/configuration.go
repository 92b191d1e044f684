package model

// configState is what the builder keeps to derive routing rules and policies key by key.
type configState struct{}

func (s *configState) start() {}

// deriveConfig brings virtual services, destination rules, sidecars, policies and tested labels up to date.
func (b *Builder) deriveConfig(c *commit) {}
