// produce --namesrv A --topic T --count N [--mode sync|async]: one after the other, or all at once.
'use strict';

const { Producer } = require('ali-ons');
const { client } = require('./options');
const { numbered, print } = require('./messages');

const MODES = { sync: oneByOne, async: atOnce };

async function produce(options) {
  const producer = new Producer({
    ...client(options),
    producerGroup: options.group || 'compat-producer-node',
    retryTimesWhenSendFailed: 0, // one message sent is one message stored
    sendMsgTimeout: 10000,
    compressMsgBodyOverHowmuch: Number(options['compress-over-bytes'] || 4096),
  });
  await producer.ready();
  await MODES[options.mode || 'sync'](producer, numbered(options));
  await producer.close();
}

async function oneByOne(producer, messages) {
  for (const [ number, message ] of messages.entries()) await sent(producer, message, number);
}

async function atOnce(producer, messages) {
  await Promise.all(messages.map((message, number) => sent(producer, message, number)));
}

async function sent(producer, message, number) {
  try {
    const result = await producer.send(message);
    print({
      number,
      msgId: result.msgId,
      offsetMsgId: result.msgId, // it makes no ids of its own
      queueId: Number(result.messageQueue.queueId),
      queueOffset: Number(result.queueOffset),
      status: result.sendStatus,
    });
  } catch (error) {
    print({ number, status: 'REFUSED', code: error.code, error: error.message });
  }
}

module.exports = { produce };
