package convert

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

const (
	helmRelease = "helm.sh/release.v1"
	// The copies of root certificates that every namespace has.
	kubeRoot, istioRoot = "kube-root-ca.crt", "istio-ca-root-cert"
)

// FieldSelector returns the selector that keeps objects that nothing reads from being sent by a cluster: pods that have
// failed, and the many secrets and ConfigMaps that tools keep for themselves. Skipped is the same for files.
func (r *Resource) FieldSelector() string {
	switch r.Kind {
	case model.KindPod:
		return "status.phase!=Failed"
	case model.KindSecret:
		return "type!=" + helmRelease + ",type!=" + string(corev1.SecretTypeServiceAccountToken)
	case model.KindConfigMap:
		return "metadata.name!=" + kubeRoot + ",metadata.name!=" + istioRoot
	}
	return ""
}

// Skipped says whether FieldSelector leaves the object out.
func Skipped(o *model.Object) bool {
	switch s := o.Spec.(type) {
	case *corev1.Pod:
		return s.Status.Phase == corev1.PodFailed
	case *corev1.Secret:
		return s.Type == helmRelease || s.Type == corev1.SecretTypeServiceAccountToken
	case *corev1.ConfigMap:
		return o.Name == kubeRoot || o.Name == istioRoot
	}
	return false
}

// certificateKeys are the keys of secrets and ConfigMaps that certificates, keys and credentials for images are read
// from.
func certificateKey(key string) bool {
	switch key {
	case "tls.crt", "tls.key", "tls.ocsp-staple", "ca.crt", "ca.crl", "cert", "key", "cacert", "crl",
		corev1.DockerConfigJsonKey, corev1.DockerConfigKey:
		return true
	}
	return false
}

// remoteSecret marks secrets that hold the kubeconfigs of other clusters, under their names.
const remoteSecret = "istio/multiCluster"

// RemoteSecret says whether a secret holds the credentials of other clusters.
func RemoteSecret(labels map[string]string) bool { return labels[remoteSecret] == "true" }

// keptData keeps what is read. Other people's secrets are not ours to hold, and other ConfigMaps may be large.
func keptData[V any](data map[string]V, kept func(string) bool) map[string]V {
	var out map[string]V
	for k, v := range data {
		if kept(k) {
			if out == nil {
				out = map[string]V{}
			}
			out[k] = v
		}
	}
	return out
}

// configKey takes the keys of ConfigMaps that are read: certificates, and the mesh's configuration.
func configKey(key string) bool { return key == "mesh" || key == "meshNetworks" || certificateKey(key) }
