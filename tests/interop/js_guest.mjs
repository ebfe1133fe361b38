// A js-libp2p peer that misbehaves: with the first peer that it is connected with, it asks for a
// protocol that nobody speaks, and publishes messages whose signatures are wrong, a good one last.
// Runs in the folder of ../shared/interop's js-peer, whose flags and packages these are.
import './node20.mjs'
import { createHash } from 'node:crypto'
import { generateKeyPairFromSeed, publicKeyToProtobuf } from '@libp2p/crypto/keys'
import { identify } from '@libp2p/identify'
import { noise } from '@libp2p/noise'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { ping } from '@libp2p/ping'
import { preSharedKey } from '@libp2p/pnet'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { parseArgs } from './args.mjs'

// Not exported by their package, hence by path.
const gossipsub = './node_modules/@libp2p/gossipsub/dist/src'
const { buildRawMessage } = await import(`${gossipsub}/utils/buildRawMessage.js`)
const { getPublishConfigFromPeerId } = await import(`${gossipsub}/utils/publishConfig.js`)
const { RPC } = await import(`${gossipsub}/message/rpc.js`)

const start = performance.now()
const UNKNOWN = '/exo/unknown/1.0.0'
const GOSSIP = '/meshsub/1.2.0'

function emit (event) {
  process.stdout.write(JSON.stringify({ ...event, t_ms: Math.round(performance.now() - start) }) + '\n')
}

process.stdout.on('error', () => process.exit(0))

const args = parseArgs(process.argv.slice(2))
const topic = args.topics[0]
const key = await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(args.seed))
// Nobody who is there: what comes in the name of its receiver is dropped before it is checked.
const other = await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(args.seed + 100))
const psk = createHash('sha3-256').update('exo_discovery_network').update(args.namespace).digest('hex')
emit({ event: 'start', implementation: 'js-libp2p', peer: peerIdFromPrivateKey(key).toString(), psk })

const node = await createLibp2p({
  privateKey: key,
  addresses: { listen: args.listen },
  transports: [tcp({ socket: { noDelay: true } })],
  connectionProtector: preSharedKey({ psk: new TextEncoder().encode(`/key/swarm/psk/1.0.0/\n/base16/\n${psk}`) }),
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: { identify: identify(), ping: ping() }
})

function flipped (bytes) {
  const copy = Uint8Array.from(bytes)
  copy[0] ^= 1
  return copy
}

const FAULTS = {
  signature: raw => ({ ...raw, signature: flipped(raw.signature) }),
  data: raw => ({ ...raw, data: Buffer.concat([raw.data, Buffer.from('!')]) }),
  'sequence number': raw => ({ ...raw, seqno: flipped(raw.seqno) }),
  'author of another': raw => ({ ...raw, from: peerIdFromPrivateKey(other).toMultihash().bytes }),
  'key of another': raw => ({ ...raw, key: publicKeyToProtobuf(other.publicKey) }),
  'no signature': raw => ({ ...raw, signature: undefined }),
  'no author': raw => ({ ...raw, from: undefined }),
  'no sequence number': raw => ({ ...raw, seqno: undefined })
}

async function framed (text, spoil) {
  const config = getPublishConfigFromPeerId('StrictSign', peerIdFromPrivateKey(key), key)
  const data = new TextEncoder().encode(text)
  const { raw } = await buildRawMessage(config, topic, data, data)
  const rpc = RPC.encode({ subscriptions: [], messages: [spoil(raw)] })
  // The length is a varint; none here has 16 KiB.
  const { length } = rpc
  return Buffer.concat([Buffer.from(length < 0x80 ? [length] : [length & 0x7f | 0x80, length >> 7]), rpc])
}

async function askForUnknown (connection) {
  try {
    await connection.newStream(UNKNOWN)
    emit({ event: 'opened', protocol: UNKNOWN })
  } catch (error) {
    emit({ event: 'refused', protocol: UNKNOWN, error: String(error) })
  }
}

async function inject (connection) {
  const messages = []
  for (const [name, spoil] of Object.entries(FAULTS)) messages.push(await framed(`spoiled: ${name}`, spoil))
  messages.push(await framed('good', raw => raw))
  const stream = await connection.newStream(GOSSIP)
  for (const message of messages) stream.send(message)
  emit({ event: 'injected', messages: messages.length })
}

let met = false
async function meet (connection) {
  if (met) return
  met = true
  emit({ event: 'connected', peer: connection.remotePeer.toString() })
  try {
    await askForUnknown(connection)
    await inject(connection)
  } catch (error) {
    emit({ event: 'inject_error', error: String(error) })
  }
}

node.addEventListener('connection:open', ({ detail }) => { void meet(detail) })
node.addEventListener('connection:close', ({ detail }) => {
  emit({ event: 'disconnected', peer: detail.remotePeer.toString() })
})
for (const address of node.getMultiaddrs()) emit({ event: 'listening', address: address.toString() })
for (const address of args.dial) {
  node.dial(multiaddr(address)).catch(error => emit({ event: 'dial_error', address, error: String(error) }))
}
setTimeout(() => process.exit(0), args.runS * 1000)
