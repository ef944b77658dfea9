// Messages that can be told apart, the same ones as the other drivers: number i of label L has the body "L-i", filled up to
// --body-bytes, the key "key-L-i", the tags in turn, and the properties number=i and colour=blue or red.
'use strict';

const { Message } = require('ali-ons');

const FILLING = '0123456789abcdef';

function numbered(options) {
  return Array.from({ length: Number(options.count || 1) }, (_, number) => message(options, number));
}

function message(options, number) {
  const name = `${options.label || 'm'}-${number}`;
  const tags = options.tags && options.tags.split(',');
  const made = new Message(options.topic, tags ? tags[number % tags.length] : '', body(name, Number(options['body-bytes'] || 0)));
  if (options.keys) made.keys = [ `key-${name}` ];
  if (options.properties) Object.assign(made.properties, { number: String(number), colour: number % 2 ? 'red' : 'blue' });
  if (options['deliver-in-ms']) made.setStartDeliverTime(Date.now() + Number(options['deliver-in-ms']));
  if (options['delay-level']) made.delayTimeLevel = Number(options['delay-level']);
  return made;
}

function body(name, bytes) {
  if (name.length >= bytes) return name;
  return `${name} ${FILLING.repeat(Math.ceil(bytes / FILLING.length))}`.slice(0, bytes);
}

function print(object) {
  process.stdout.write(`${JSON.stringify(object)}\n`);
}

// queueOffset and the timestamps come as numbers or as objects of the client's own 64-bit integers.
function received(message) {
  print({
    topic: message.topic,
    msgId: message.msgId,
    queueId: message.queueId,
    queueOffset: Number(message.queueOffset),
    keys: message.keys,
    tags: message.tags,
    body: message.body.toString(),
    reconsumeTimes: message.reconsumeTimes,
    bornTimestamp: Number(message.bornTimestamp),
    storeTimestamp: Number(message.storeTimestamp),
    sysFlag: message.sysFlag,
    properties: message.properties,
  });
}

module.exports = { numbered, print, received };
