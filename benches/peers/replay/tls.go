package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// certificate makes a certificate for 127.0.0.1 and the PEM of the CA that signed it, both valid for a day.
func certificate() (tls.Certificate, []byte, error) {
	now := time.Now()
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), BasicConstraintsValid: true}
	}
	ca, leaf := template(1, "replay CA"), template(2, "replay")
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	none := tls.Certificate{}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, nil, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return none, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return none, nil, err
	}
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, caPEM, nil
}

// serveTLS makes a listener speak TLS, HTTP/2 included as kube-apiserver does, and writes a kubeconfig that leads to it.
func serveTLS(l net.Listener, kubeconfig string) (net.Listener, error) {
	cert, ca, err := certificate()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: replay
clusters: [{name: replay, cluster: {server: "https://%s", certificate-authority-data: %s}}]
users: [{name: nobody, user: {token: none}}]
contexts: [{name: replay, context: {cluster: replay, user: nobody}}]
`, l.Addr(), base64.StdEncoding.EncodeToString(ca))
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}), nil
}
