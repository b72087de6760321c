// A cluster with at most one Secret, for the function `lookup` of templates.
package main

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"helm.sh/helm/v3/pkg/engine"
)

type provider struct{ client dynamic.Interface }

// cluster makes one with the Secret NAME:KEY=VALUE, or with none.
func cluster(namespace, secret string) engine.ClientProvider {
	name, entry, isThere := strings.Cut(secret, ":")
	if !isThere {
		return provider{fake.NewSimpleDynamicClient(scheme.Scheme)}
	}
	key, value, _ := strings.Cut(entry, "=")
	return provider{fake.NewSimpleDynamicClient(scheme.Scheme, &v1.Secret{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: namespace},
		Data:       map[string][]byte{key: []byte(value)},
	})}
}

func (known provider) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, false, err
	}
	return known.client.Resource(version.WithResource(strings.ToLower(kind) + "s")), true, nil
}
