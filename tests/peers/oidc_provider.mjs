// A certified OpenID Connect provider on loopback, for test_oidc.py.
//
// usage: node oidc_provider.mjs '{"port":…,"redirect":…,"key":"…","offset":seconds}'
// Everyone signs in at once as the account that the "account" cookie names (default: amal).
import {createHash, createPrivateKey} from 'node:crypto';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const options = JSON.parse(process.argv[2]);
const now = Date.now;
Date.now = () => now() + options.offset * 1000;  // Its clock may be wrong.

// The console's own package list is the one place where versions are pinned.
const require = createRequire(new URL('../../console/package.json', import.meta.url));
const {Provider} = await import(pathToFileURL(require.resolve('oidc-provider')));

// An Ed25519 key from a word: another word is another key, and another kid.
const seed = createHash('sha256').update(options.key).digest();
const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]);
const jwk = createPrivateKey({key: der, format: 'der', type: 'pkcs8'}).export({format: 'jwk'});
const signing = {...jwk, use: 'sig', alg: 'EdDSA', kid: 'key-' + options.key};

const issuer = `http://127.0.0.1:${options.port}`;
const groups = {amal: ['risk', 'everybody'], omar: []};
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'console', client_secret: 'a secret: of + the console', redirect_uris: [options.redirect],
      response_types: ['code'], grant_types: ['authorization_code'],
      id_token_signed_response_alg: 'EdDSA',
    },
    {
      client_id: 'robot', client_secret: 'robots secret', redirect_uris: [], response_types: [],
      grant_types: ['client_credentials'], id_token_signed_response_alg: 'EdDSA',
    },
  ],
  jwks: {keys: [signing]},
  cookies: {keys: ['for tests']},
  scopes: ['openid', 'profile', 'groups'],
  claims: {openid: ['sub'], profile: ['preferred_username'], groups: ['groups']},
  conformIdTokenClaims: false,
  enabledJWA: {idTokenSigningAlgValues: ['EdDSA', 'RS256']},
  pkce: {required: () => true},
  ttl: {AccessToken: 600, ClientCredentials: 600, IdToken: 600, Interaction: 600, Session: 600, Grant: 600},
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({sub: id, preferred_username: id + '@example.com', groups: groups[id] ?? []}),
  }),
  interactions: {url: (_, interaction) => `/interaction/${interaction.uid}`},
  features: {
    devInteractions: {enabled: false},
    clientCredentials: {enabled: true},
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: (_, resource) => ({
        scope: 'api', audience: resource.replace('urn:', ''), accessTokenFormat: 'jwt',
        jwt: {sign: {alg: 'EdDSA'}},
      }),
    },
  },
});

async function interact(request, response) {
  const details = await provider.interactionDetails(request, response);
  const account = /account=(\w+)/.exec(request.headers.cookie ?? '')?.[1] ?? 'amal';
  if (details.prompt.name === 'login') {
    return provider.interactionFinished(request, response, {login: {accountId: account}});
  }
  const grant = new provider.Grant({
    accountId: details.session.accountId, clientId: details.params.client_id,
  });
  grant.addOIDCScope('openid profile groups');
  const result = {consent: {grantId: await grant.save()}};
  return provider.interactionFinished(request, response, result, {mergeWithLastSubmission: true});
}

const answer = provider.callback();
createServer((request, response) => {
  if (!request.url.startsWith('/interaction/')) return answer(request, response);
  interact(request, response).catch((error) => {
    response.statusCode = 500;
    response.end(String(error));
  });
}).listen(options.port, '127.0.0.1', () => console.log('ready'));
