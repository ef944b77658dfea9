// Drives Pulsar's client for Node: a line of JSON in is a command, a line out its answer, as drivers.py says. It has the
// commands of one story only (test_node.py).
'use strict';

const readline = require('readline');
const Pulsar = require('pulsar-client');

const things = new Map();
const messages = [];

const keep = (asked, thing) => {
  things.set(asked.as, thing);
  return true;
};

const COMMANDS = {
  open: asked => keep(asked, new Pulsar.Client({ serviceUrl: asked.url, operationTimeoutSeconds: 20 })),
  close: async asked => {
    await things.get(asked.on).close();
    return things.delete(asked.on);
  },
  producer: async asked => keep(asked, await things.get(asked.on).createProducer({
    topic: asked.topic,
    batchingEnabled: Boolean(asked.batch),
    compressionType: { lz4: 'LZ4', zlib: 'Zlib', zstd: 'ZSTD', snappy: 'SNAPPY' }[asked.compress],
  })),
  send: async asked => {
    const sent = asked.messages.map(message => things.get(asked.on).send({
      data: Buffer.from(message.body),
      partitionKey: message.key,
      properties: message.properties,
    }));
    return (await Promise.all(sent)).map(String);
  },
  subscribe: async asked => keep(asked, await things.get(asked.on).subscribe({
    topic: asked.topics[0],
    subscription: asked.subscription,
    subscriptionType: (asked.type || 'Exclusive').replace('_', ''),
    subscriptionInitialPosition: asked.from,
    nAckRedeliverTimeoutMs: asked.nack_ms || 100,
  })),
  receive,
  ack: async asked => {
    await Promise.all(asked.numbers.map(number => things.get(asked.on).acknowledge(messages[number])));
    return true;
  },
  nack: asked => {
    asked.numbers.forEach(number => things.get(asked.on).negativeAcknowledge(messages[number]));
    return true;
  },
  unsubscribe: async asked => {
    await things.get(asked.on).unsubscribe();
    return true;
  },
};

// So many, or those that came before nothing came for a while.
async function receive(asked) {
  const got = [];
  while (got.length < asked.count) {
    let message;
    try {
      message = await things.get(asked.on).receive(asked.wait_ms);
    } catch (error) {
      if (/TimeOut/i.test(error.message)) break;
      throw error;
    }
    messages.push(message);
    got.push({
      number: messages.length - 1,
      body: message.getData().toString(),
      key: message.getPartitionKey(),
      properties: message.getProperties(),
      redelivered: message.getRedeliveryCount(),
      topic: message.getTopicName(),
    });
  }
  return got;
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    let answer;
    try {
      if (!COMMANDS[asked.do]) throw new Error(`Unsupported: ${asked.do}`);
      answer = { ok: await COMMANDS[asked.do](asked) };
    } catch (error) {
      answer = { error: error.constructor.name, why: error.message };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}

main();
