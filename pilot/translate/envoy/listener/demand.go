package listener

import (
	"strconv"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// outboundUnit is one listener: where it is, and who wants to be reached there, in order.
type outboundUnit struct {
	// bind is the addresses, the primary one first, separated by commas, or a "unix://" path.
	bind string
	port uint32
	// bound listeners are really opened; the others take what is redirected to the proxy.
	bound bool
	// fallback is the cluster for connections that no chain takes.
	fallback string
	// demands is the encoded list.
	demands string
}

// demand is one service port's part in a listener.
type demand struct {
	service model.ServiceKey
	// port and name are the listener port's: the Sidecar's, if it gives one, else the service's.
	port     uint32
	name     string
	protocol model.Protocol
	// target is the service port that traffic goes to unless a rule says otherwise.
	target uint32
	http   bool // contributes an HTTP chain
	tcp    bool // contributes TCP chains
	// sni tells that only the server name tells the service apart.
	sni bool
	// forward tells that the service's names are resolved when they are asked for.
	forward bool
	cidrs   []string
	// rules are the virtual services, "namespace/name", whose TCP or TLS routes may apply, in order of precedence.
	rules []string
}

// The separators in encoded demands; none of them occurs in what they separate.
const (
	sepDemand = "\x1e"
	sepField  = "\x1f"
	sepItem   = ","
)

func (d *demand) encode(b *strings.Builder) {
	if b.Len() > 0 {
		b.WriteString(sepDemand)
	}
	flags := byte('0')
	for i, f := range [...]bool{d.http, d.tcp, d.sni, d.forward} {
		if f {
			flags |= 1 << i
		}
	}
	b.WriteByte(flags)
	for _, f := range [...]string{
		d.service.Namespace, d.service.Host, strconv.FormatUint(uint64(d.port), 10), d.name, string(d.protocol),
		strconv.FormatUint(uint64(d.target), 10), strings.Join(d.cidrs, sepItem), strings.Join(d.rules, sepItem),
	} {
		b.WriteString(sepField)
		b.WriteString(f)
	}
}

// decodeDemands is the inverse of encode; what encode did not write is passed over.
func decodeDemands(text string) []demand {
	var out []demand
	for _, part := range strings.Split(text, sepDemand) {
		f := strings.Split(part, sepField)
		if len(f) != 9 || len(f[0]) != 1 {
			continue
		}
		port, err1 := strconv.ParseUint(f[3], 10, 32)
		target, err2 := strconv.ParseUint(f[6], 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		flags := f[0][0]
		out = append(out, demand{
			service: model.ServiceKey{Namespace: f[1], Host: f[2]}, port: uint32(port), name: f[4],
			protocol: model.Protocol(f[5]), target: uint32(target), cidrs: items(f[7]), rules: items(f[8]),
			http: flags&1 != 0, tcp: flags&2 != 0, sni: flags&4 != 0, forward: flags&8 != 0,
		})
	}
	return out
}

func items(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, sepItem)
}
